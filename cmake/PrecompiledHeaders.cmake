# Precompiles the headers of other projects that most sources include, where TRIBUTARY_PCH is on. A
# precompiled header hides a missing #include, so it stays off in the preset `release`, which proves
# that each source includes what it needs.

set(tributary_pch_library <algorithm> <array> <functional> <memory> <optional> <span> <string>
                          <string_view> <unordered_map> <vector> <fmt/format.h> <tl/expected.hpp>)
set(tributary_pch_tests ${tributary_pch_library} <gtest/gtest.h> <gmock/gmock.h>)

# Nobody measures test code, so a release compiles it faster. The libraries under test keep their
# options.
function(tributary_compile_test_faster target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# tributary_test_program(TARGET): what all test programs have in common.
function(tributary_test_program target)
  target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest_main)
  tributary_compile_test_faster(${target})
  cmake_language(EVAL CODE "cmake_language(DEFER CALL tributary_precompile ${target} tests)")
endfunction()

# tributary_precompile(TARGET KIND): lets TARGET use the precompiled header of KIND, `library` or
# `tests`. All targets of a kind share one header, which needs the same compile options. So sources
# and libraries with options of their own are left out. Call it when TARGET is complete.
function(tributary_precompile target kind)
  if(NOT TRIBUTARY_PCH)
    return()
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_target_property(links ${target} LINK_LIBRARIES)
  if(kind STREQUAL "library" AND options)
    return()
  endif()
  # These bring compile options of their own: -march and -pthread.
  if("dpdk_clean" IN_LIST links OR "tributary_switchml_proto" IN_LIST links)
    return()
  endif()
  if(NOT TARGET tributary_pch_${kind})
    set(source ${CMAKE_BINARY_DIR}/pch_${kind}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
    if(kind STREQUAL "tests")
      # A program, like the targets that share the header: -fPIE.
      add_executable(tributary_pch_tests EXCLUDE_FROM_ALL ${source})
      target_link_libraries(tributary_pch_tests PRIVATE GTest::gmock)
      tributary_compile_test_faster(tributary_pch_tests)
    else()
      add_library(tributary_pch_library OBJECT EXCLUDE_FROM_ALL ${source})
    endif()
    target_link_libraries(tributary_pch_${kind} PRIVATE tributary_flags fmt::fmt tl::expected)
    target_precompile_headers(tributary_pch_${kind} PRIVATE ${tributary_pch_${kind}})
  endif()
  target_precompile_headers(${target} REUSE_FROM tributary_pch_${kind})
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
