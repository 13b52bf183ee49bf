# SPDX-License-Identifier: Apache-2.0
"""The modules behind tools/fill-docs.py and tools/check-docs.sh."""
