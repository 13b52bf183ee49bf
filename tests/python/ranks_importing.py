# SPDX-License-Identifier: Apache-2.0
# Imports the back end itself, so that torchrun can start it without tributary.run. For torch_test.py.
import torch.distributed as dist

import tributary.torch  # noqa: F401

dist.init_process_group("tributary")
dist.barrier()
dist.destroy_process_group()
print("all well")
