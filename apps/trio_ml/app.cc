// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/app.h"

template class tributary::engine::LiveCore<tributary::trio_ml::App>;
