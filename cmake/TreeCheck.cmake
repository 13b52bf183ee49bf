# The checks of tools/ as tests. tree.check looks at this tree, docs.check compares the pages' tables
# with their results, and docs.links follows their links. ops.check looks at the files for Prometheus
# and Grafana. The *_itself tests put faults into small trees and expect the checks to name them.
# package.check looks at the contents of packages.
function(tributary_tree_check)
  if(TRIBUTARY_TESTS)
    set(tools ${PROJECT_SOURCE_DIR}/tools)
    add_test(NAME tree.check COMMAND ${tools}/check-tree.sh)
    add_test(NAME tree.check_itself COMMAND ${tools}/check-tree-test.sh)
    add_test(NAME docs.check COMMAND ${tools}/fill-docs.py --check)
    add_test(NAME docs.check_itself COMMAND ${tools}/fill-docs-test.py)
    add_test(NAME docs.commands_itself COMMAND ${tools}/check-docs-test.py)
    add_test(NAME docs.links COMMAND ${tools}/check-links.py)
    add_test(NAME docs.links_itself COMMAND ${tools}/check-links-test.py)
    add_test(NAME ops.check COMMAND ${PROJECT_SOURCE_DIR}/ops/check.sh)
    set_tests_properties(ops.check PROPERTIES TIMEOUT 240 SKIP_RETURN_CODE 77)
    set_tests_properties(tree.check tree.check_itself docs.check docs.check_itself
                         docs.commands_itself docs.links docs.links_itself PROPERTIES TIMEOUT 240)
    # Needs the files of the target command_line_files, which sanitized builds do without.
    if(NOT TRIBUTARY_SANITIZE)
      add_test(NAME package.check COMMAND ${tools}/check-packaging.sh ${PROJECT_BINARY_DIR})
      set_tests_properties(package.check PROPERTIES TIMEOUT 240)
    endif()
  endif()
endfunction()
