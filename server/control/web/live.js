// Asks the JSON API each second, renews the tables and draws the throughput. Text from the network
// goes through textContent only. server/control/pages.cc makes the same rows for readers without
// this script.
'use strict';
(() => {
  const kEveryMs = 1000;
  const kAnswerMs = 5000;  // A server that takes longer hangs, or is stopped.
  const kSamples = 120;
  const kEventsMax = 500;
  const kEventColumns = ['time', 'level', 'event'];
  const kBoundsMs = [10, 30, 100, 300, 1000, 3000, 10000, 30000];
  const kSvg = 'http://www.w3.org/2000/svg';
  const page = document.body.dataset.page;
  let paused = false;

  const byId = (id) => document.getElementById(id);
  const level = (ms) => kBoundsMs.filter((bound) => ms > bound).length;
  const count = (value) => value.toLocaleString('en-US');
  const duration = (ms) => ms === null ? 'unknown' : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
  const scaled = (value, unit) => {
    for (const [size, prefix] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
      if (value >= size) return `${(value / size).toFixed(2)} ${prefix}${unit}`;
    }
    return `${value.toFixed(0)} ${unit}`;
  };
  const perSecond = (rate) => `${count(Math.round(rate))} /s`;
  const ranks = (list) => list.length === 0 ? 'none' : list.join(', ');

  function svg(name, attributes, text = '') {
    const element = document.createElementNS(kSvg, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  }

  // A cell is a text, {text, link, className} or an element.
  function cell(content) {
    const td = document.createElement('td');
    if (content instanceof Element) {
      td.append(content);
    } else if (typeof content === 'object') {
      td.className = content.className || '';
      if (content.link) {
        const a = document.createElement('a');
        a.href = content.link;
        a.textContent = content.text;
        td.append(a);
      } else {
        td.textContent = content.text;
      }
    } else {
      td.textContent = content;
    }
    return td;
  }

  function fill(id, rows, none) {
    const body = byId(id);
    if (!body) return;
    const elements = rows.map((cells) => {
      const tr = document.createElement('tr');
      tr.append(...cells.map(cell));
      return tr;
    });
    if (elements.length === 0) {
      const td = cell({text: none, className: 'none'});
      td.colSpan = 12;
      const tr = document.createElement('tr');
      tr.append(td);
      elements.push(tr);
    }
    body.replaceChildren(...elements);
  }

  // Draws one rectangle for each run of samples of one level; the newest sample is at the right.
  function strip(lateness) {
    const longest = Math.max(0, ...lateness);
    const drawing = svg('svg', {class: 'strip', viewBox: `0 0 ${kSamples} 1`, preserveAspectRatio: 'none',
      role: 'img', 'aria-label': `longest ${duration(longest)}`});
    const offset = kSamples - lateness.length;
    for (let begin = 0, end; begin < lateness.length; begin = end) {
      const of = level(lateness[begin]);
      for (end = begin + 1; end < lateness.length && level(lateness[end]) === of;) end++;
      if (of > 0) drawing.append(svg('rect', {class: `l${of}`, x: offset + begin, y: 0, width: end - begin, height: 1}));
    }
    return drawing;
  }

  const shareCell = (share) => ({text: `${(share * 100).toFixed(2)} %`, className: share > 0 ? 'bad' : ''});

  function reportCells(report) {
    if (!report) return ['unknown', 'unknown', 'unknown', 'unknown'];
    const waits = report.waited_ms > 0;
    return [scaled(report.bytes_per_s, 'B/s'), perSecond(report.retransmitted_per_s),
      shareCell(report.degraded_share),
      waits ? {text: report.waits_for.length === 0 ? 'others' : ranks(report.waits_for), className: 'bad'} : 'nobody'];
  }

  function lateCells(lateness) {
    const now = lateness.length === 0 ? 0 : lateness[lateness.length - 1];
    return [{text: duration(now), className: now > 300 ? 'bad' : ''}, duration(Math.max(0, ...lateness)), strip(lateness)];
  }

  function jobRow(job) {
    return [{text: job.id, link: `/jobs/${job.id}`}, `${job.members} of ${job.sources}`,
      job.session === 0 ? 'none' : job.session, count(job.blocks_in_progress), count(job.blocks_total),
      shareCell(job.degraded_share), job.mitigation ? 'on' : 'off', scaled(job.memory_bytes, 'B')];
  }

  function rates(samples, value) {
    const list = [];
    for (let i = 1; i < samples.length; i++) {
      const elapsed = samples[i].uptime_s - samples[i - 1].uptime_s;
      list.push(elapsed > 0 ? (value(samples[i]) - value(samples[i - 1])) / elapsed : 0);
    }
    return list;
  }

  // Draws lines of [class, label, list of rates, newest last]; text() writes a rate.
  function drawChart(lines, text) {
    const top = Math.max(1, ...lines.flatMap((line) => line[2]));
    const chart = byId('chart');
    const width = Math.max(300, chart.parentElement.clientWidth);
    chart.setAttribute('viewBox', `0 0 ${width} 150`);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const y = 140 - share * 120;
      parts.push(svg('line', {class: 'grid', x1: 0, x2: width, y1: y, y2: y}));
      parts.push(svg('text', {x: 2, y: y - 4}, text(top * share)));
    }
    lines.forEach(([name, label, list], index) => {
      const points = list.map((rate, i) => {
        const x = width * (kSamples - list.length + i) / (kSamples - 1);
        return `${x.toFixed(1)},${(140 - 120 * rate / top).toFixed(1)}`;
      });
      parts.push(svg('polyline', {class: name, points: points.join(' ')}));
      parts.push(svg('text', {class: name, x: width - 120 + index * 75, y: 13}, label));
    });
    chart.replaceChildren(...parts);
    chart.removeAttribute('hidden');
  }

  function showTraffic(samples, hasResults) {
    if (samples.length === 0) return;
    const last = samples[samples.length - 1];
    const row = (name, value, text) => {
      const [now] = rates(samples, value).slice(-1);
      const [mean] = rates([samples[0], last], value);
      return [name, text(now || 0), text(mean)];
    };
    const bits = (rate) => scaled(rate, 'bit/s');
    const results = (s) => s.blocks_completed + s.blocks_degraded;
    fill('traffic', [
      [...row('Received', (s) => s.rx_bytes * 8, bits), scaled(last.rx_bytes, 'B')],
      [...row('Sent', (s) => s.tx_bytes * 8, bits), scaled(last.tx_bytes, 'B')],
      ...(hasResults ? [[...row('Results', results, perSecond), count(results(last))]] : []),
    ], '');
    drawChart([['first', 'received', rates(samples, (s) => s.rx_bytes * 8)],
      ['second', 'sent', rates(samples, (s) => s.tx_bytes * 8)]], bits);
  }

  function showResults(history) {
    const samples = history.uptime_s.map((uptime_s, i) => ({uptime_s, blocks: history.blocks_total[i]}));
    if (samples.length === 0) return;
    const last = samples[samples.length - 1];
    const list = rates(samples, (s) => s.blocks);
    const [mean] = rates([samples[0], last], (s) => s.blocks);
    fill('traffic', [['Results', perSecond(list[list.length - 1] || 0), perSecond(mean), count(last.blocks)]], '');
    drawChart([['first', 'results', list]], perSecond);
  }

  function sessionRows(session) {
    return session.workers.map((worker, rank) => [session.id, rank,
      worker === '' ? {text: 'not registered', className: 'bad'} : worker,
      session.silent_s[rank] === null ? 'never' : duration(Math.round(session.silent_s[rank] * 1000)),
      count(session.packets), count(session.slots_completed)]);
  }

  function coreRow(core, index, samples) {
    const share = (from, to) => {
      const [cpus] = rates([from, to], (s) => s.cpu_s[index] || 0);
      return `${(cpus * 100).toFixed(0)} %`;
    };
    const last = samples[samples.length - 1];
    const shares = samples.length < 2 ? ['unknown', 'unknown'] : [share(samples[samples.length - 2], last), share(samples[0], last)];
    return [index, ...shares, `${core.cpu_s.toFixed(1)} s`, count(core.packets)];
  }

  async function ask(path) {
    const answer = await fetch(path, {cache: 'no-store', signal: AbortSignal.timeout(kAnswerMs)});
    if (answer.status === 401) throw new Error('The server asks for the token: log in again');
    if (!answer.ok) throw new Error((await answer.json()).error || `Status ${answer.status}`);
    return answer.json();
  }

  function showWaits(rows) {
    fill('waits', rows.map((row) => [row.job, {text: ranks(row.missing), className: 'bad'},
      duration(row.since_ms), {text: row.advice, className: 'text'}, row.block === null ? 'none' : row.block,
      duration(row.last_heard_ms), row.address || 'unknown']), 'Nobody waits.');
  }

  async function renewDashboard() {
    const [status, who, history] = await Promise.all([ask('/v1/status'), ask('/v1/who'), ask('/v1/history')]);
    showWaits(who.rows);
    fill('jobs', status.jobs.map(jobRow), 'There is no job.');
    fill('late', history.lateness.map((row) => [row.job, ranks(row.ranks), ...lateCells(row.lateness_ms)]), 'There is no rank.');
    if (byId('left-out')) byId('left-out').textContent = history.lateness_left_out > 0 ? `${history.lateness_left_out} ranks with less lateness are on the pages of the jobs.` : '';
    fill('sessions', status.sessions.flatMap(sessionRows), 'There is no session.');
    showTraffic(history.samples, byId('blocks') !== null);
    fill('blocks', [['Completed', count(status.blocks_completed)],
      ['Degraded', {text: count(status.blocks_degraded), className: status.blocks_degraded > 0 ? 'bad' : ''}],
      ['Share degraded', shareCell(status.degraded_share)], ['In progress', count(status.blocks_in_progress)]], '');
    const byName = (counts) => Object.entries(counts).map(([name, packets]) => [name, count(packets)]);
    fill('counts', byName(status.events), 'None.');
    fill('drops', byName(status.drops), 'None.');
    fill('records', byName(status.records), 'None.');
    fill('notices', status.notices.map((notice) => [{text: notice, className: 'text bad'}]), 'Nothing to notice.');
    fill('cores', status.cores.map((core, i) => coreRow(core, i, history.samples)), '');
    return status;
  }

  async function renewJob() {
    const id = location.pathname.split('/').pop();
    const [status, who, job, history] = await Promise.all([ask('/v1/status'), ask('/v1/who'), ask(`/v1/jobs/${id}`), ask(`/v1/history/${id}`)]);
    const isOfJob = (row) => row.channel_of === job.channel_of;
    showWaits(who.rows.filter(isOfJob));
    fill('jobs', status.jobs.filter(isOfJob).map(jobRow), '');
    fill('ranks', job.sources.map((source, i) => [ranks(source.ranks), source.state, source.waited_for ? 'yes' : {text: 'no', className: 'bad'},
      source.address || 'unknown', duration(source.last_heard_ms), ...reportCells(source.report),
      ...lateCells(history.lateness[i] ? history.lateness[i].lateness_ms : [])]), '');
    const {numbers, lateness_ms: late} = history.all_reduces;
    fill('begins', late.flatMap((row, i) => row.every((each) => each === null) ? []
      : [[ranks(job.sources[i].ranks), ...lateCells(row.map((each) => each || 0))]]), 'No worker has reported an all-reduce of this session.');
    byId('begin-range').textContent = numbers.length === 0 ? ''
      : `All-reduces ${count(numbers[0])} to ${count(numbers[numbers.length - 1])}, ${count(numbers.length)} of them.`;
    showResults(history);
    fill('stalls', history.stalls.map((stall) => [ranks(stall.ranks), stall.block,
      `${Math.max(0, status.uptime_s - stall.began_s).toFixed(0)} s ago`, duration(stall.lasted_ms),
      stall.ended ? 'ended' : {text: 'goes on', className: 'bad'}]), 'None was seen.');
    fill('progress', job.blocks.map((block) => [block.id, duration(block.since_ms),
      block.waits_upstream ? 'the upper aggregator' : ranks(block.missing)]), 'None.');
    return status;
  }

  function eventRow(line) {
    const details = Object.entries(line).filter(([name]) => !kEventColumns.includes(name))
      .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
    return [line.time, {text: line.level, className: ['error', 'warn'].includes(line.level) ? 'bad' : ''},
      line.event, {text: details.join(' '), className: 'text'}];
  }

  let newestEvent = '';
  async function renewEvents() {
    const [status, log] = await Promise.all([ask('/v1/status'), ask('/v1/log')]);
    const newest = JSON.stringify(log.rows.slice(-1));
    // The log has a line for each new recording.
    if (newest !== newestEvent) {
      fill('events', log.rows.slice(-kEventsMax).reverse().map(eventRow), 'Nothing has happened.');
      const {recordings} = await ask('/v1/recordings');
      fill('recordings', recordings.map((file) => [{text: file.name, link: `/v1/recordings/${file.name}`},
        file.written, scaled(file.size_bytes, 'B')]), 'There is none.');
    }
    newestEvent = newest;
    return status;
  }

  const renewPage = {dashboard: renewDashboard, job: renewJob, events: renewEvents}[page];

  async function renew() {
    if (paused || document.hidden) return;
    const live = byId('live');
    try {
      const status = await renewPage();
      live.className = '';
      live.textContent = `Up for ${count(Math.floor(status.uptime_s))} s`;
    } catch (error) {
      live.className = 'lost';
      const isSilent = error instanceof TypeError || error.name === 'TimeoutError';
      live.textContent = isSilent ? 'The server does not answer' : error.message;
    }
  }

  async function renewForever() {
    await renew();
    setTimeout(renewForever, kEveryMs);
  }

  if (!renewPage) return;
  const button = byId('pause');
  button.hidden = false;
  button.addEventListener('click', () => {
    paused = !paused;
    button.textContent = paused ? 'Continue' : 'Pause';
  });
  renewForever();
})();
