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
  if(TARGET test_headers AND NOT target STREQUAL "test_headers")
    target_precompile_headers(${target} REUSE_FROM test_headers)
  endif()
endfunction()

# tributary_precompile_test_headers(HEADERS...): compiles these headers once, for the test programs that
# follow. Parsing them takes nearly half of the time of a test's source. It has the options of a test
# program, because a compiler refuses headers that were precompiled with other ones.
function(tributary_precompile_test_headers)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Holds nothing but the precompiled headers.\n" @ONLY)
  add_executable(test_headers EXCLUDE_FROM_ALL ${source})
  target_link_libraries(test_headers PRIVATE tributary_flags fmt::fmt tl::expected nlohmann_json::nlohmann_json)
  target_precompile_headers(test_headers PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # A compiler cache may restore them beside files with other times.
    target_compile_options(test_headers PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  tributary_test_program(test_headers)
endfunction()

# tributary_compile_texts_faster(TARGET): the same for a library that parses arguments and files and
# writes reports. Its templates take most of a compiler's time, above all with sanitizers.
function(tributary_compile_texts_faster target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)
endfunction()
