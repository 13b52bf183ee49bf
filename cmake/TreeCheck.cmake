# The checks of tools/ as tests: tree.check over this tree, tree.check_itself over faults on purpose.
function(tributary_tree_check)
  if(TRIBUTARY_TESTS)
    add_test(NAME tree.check COMMAND ${PROJECT_SOURCE_DIR}/tools/check-tree.sh)
    add_test(NAME tree.check_itself COMMAND ${PROJECT_SOURCE_DIR}/tools/check-tree-test.sh)
    set_tests_properties(tree.check tree.check_itself PROPERTIES TIMEOUT 60)
  endif()
endfunction()
