# Compiles code faster whose speed nobody measures.

# Test code. The libraries under test keep their options.
function(tributary_compile_test_faster target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)
endfunction()

# tributary_test_program(TARGET): what all test programs have in common.
function(tributary_test_program target)
  target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest_main)
  set_target_properties(${target} PROPERTIES TRIBUTARY_IS_TEST TRUE)
  tributary_compile_test_faster(${target})
endfunction()

# tributary_compile_texts_faster(TARGET): the same for a library that parses arguments and files and
# writes reports. Its templates take most of a compiler's time, above all with sanitizers.
function(tributary_compile_texts_faster target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)
endfunction()
