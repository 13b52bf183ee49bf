# The parts of tests/ that are installed: programs outside this tree test themselves with them. They are
# built without the tests, too.
tributary_library(test_support SOURCES tests/support/seed.cc DEPENDS tributary_base)
# The suspending machine, for the tests of every folder that has programs.
tributary_library(step_machine SOURCES tests/engine/step_machine.cc DEPENDS tributary_engine_model)
tributary_library(program_testing DEPENDS tributary_program_main tributary_step_machine tributary_test_support)
