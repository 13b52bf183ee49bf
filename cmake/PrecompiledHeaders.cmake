# Precompiles the headers of other projects that most sources include, where TRIBUTARY_PCH is on. It is
# off in the presets with sanitizers. A precompiled header hides a missing #include, and these presets
# prove that each source includes what it needs. And Clang's options name the header by its whole path,
# so that ccache would share no object between two clones.

set(tributary_pch_library <algorithm> <array> <functional> <memory> <optional> <span> <string>
                          <string_view> <unordered_map> <vector> <fmt/format.h> <tl/expected.hpp>)
set(tributary_pch_variant ${tributary_pch_library})
set(tributary_pch_json ${tributary_pch_library} <nlohmann/json.hpp>)
set(tributary_pch_texts ${tributary_pch_json} <CLI/CLI.hpp>)
set(tributary_pch_tests ${tributary_pch_library} <gtest/gtest.h> <gmock/gmock.h>)

# Nobody measures test code, so it is compiled fast. The libraries under test keep their options.
function(tributary_compile_test_faster target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)
endfunction()

# tributary_test_program(TARGET): what all test programs have in common.
function(tributary_test_program target)
  target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest_main)
  set_target_properties(${target} PROPERTIES TRIBUTARY_IS_TEST TRUE)
  tributary_compile_test_faster(${target})
  cmake_language(EVAL CODE "cmake_language(DEFER CALL tributary_precompile ${target} tests)")
endfunction()

# tributary_compile_variant_faster(TARGET): the same for the libraries with planted bugs.
function(tributary_compile_variant_faster target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# tributary_compile_texts_faster(TARGET): the same for a library that parses arguments and files and
# writes reports. Its templates take most of a compiler's time, above all with sanitizers.
function(tributary_compile_texts_faster target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)
  set_target_properties(${target} PROPERTIES TRIBUTARY_PCH_KIND texts)
endfunction()

# tributary_make_precompiled(KIND): makes the target tributary_pch_KIND, whose header the targets of
# this kind share.
function(tributary_make_precompiled kind)
  set(source ${CMAKE_BINARY_DIR}/pch_${kind}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
  set(target tributary_pch_${kind})
  if(kind STREQUAL "tests")
    # A program, like the targets that share the header: -fPIE.
    add_executable(${target} EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${target} PRIVATE GTest::gmock)
    set_target_properties(${target} PROPERTIES TRIBUTARY_IS_TEST TRUE)
    tributary_compile_test_faster(${target})
  else()
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${source})
  endif()
  if(kind STREQUAL "variant")
    tributary_compile_variant_faster(${target})
  elseif(kind STREQUAL "texts")
    target_link_libraries(${target} PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json)
    tributary_compile_texts_faster(${target})
  elseif(kind STREQUAL "json")
    target_link_libraries(${target} PRIVATE nlohmann_json::nlohmann_json)
  endif()
  target_link_libraries(${target} PRIVATE tributary_flags fmt::fmt tl::expected)
  target_precompile_headers(${target} PRIVATE ${tributary_pch_${kind}})
endfunction()

# tributary_precompile(TARGET KIND): lets TARGET use the precompiled header of KIND: `library`,
# `variant` or `tests`. All targets of a kind share one header, which needs the same compile options.
# So sources and libraries with options of their own are left out. A library that links JSON gets the
# kind `json`, a library of texts its own. Call it when TARGET is complete.
function(tributary_precompile target kind)
  if(NOT TRIBUTARY_PCH)
    return()
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_target_property(links ${target} LINK_LIBRARIES)
  get_target_property(own_kind ${target} TRIBUTARY_PCH_KIND)
  if(own_kind)
    set(kind ${own_kind})
  elseif(kind STREQUAL "library")
    if(options)
      return()
    endif()
    if("nlohmann_json::nlohmann_json" IN_LIST links)
      set(kind json)
    endif()
  endif()
  # These bring compile options of their own: -march and -pthread.
  if("dpdk_clean" IN_LIST links OR "tributary_switchml_proto" IN_LIST links)
    return()
  endif()
  if(NOT TARGET tributary_pch_${kind})
    tributary_make_precompiled(${kind})
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
