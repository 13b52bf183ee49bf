# SPDX-License-Identifier: Apache-2.0
# Prints how it was started; for package_test.py.
import sys

print(__name__, sys.argv[0], sys.argv[1:], sys.path[0])
sys.exit(3)
