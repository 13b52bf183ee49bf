# SPDX-License-Identifier: Apache-2.0
# Ranks of a script that keeps its Gloo. torch_test.py starts this. Prints "all well" at the end.
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
print("all well", flush=True)
