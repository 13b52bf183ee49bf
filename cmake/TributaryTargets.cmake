# The two functions every folder uses, so that flags stand in one place.

include(Ccache)
include(CompileFaster)
include(HeaderCheck)
include(Mutants)
include(Packaging)
include(TreeCheck)
# At the end of the top folder, when every dependency has been found and tests are enabled.
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL tributary_header_check)
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL tributary_tree_check)
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL tributary_packaging)

add_library(tributary_flags INTERFACE)
target_include_directories(
  tributary_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tributary>)
target_compile_features(tributary_flags INTERFACE cxx_std_20)
# Names sources from the top of the tree: in __FILE__, and in the places of std::source_location.
target_compile_options(tributary_flags INTERFACE
                       $<BUILD_INTERFACE:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
# With -fPIC, GCC inlines a library's functions into each other only with this flag. Clang always
# does.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tributary_flags
                         INTERFACE $<BUILD_INTERFACE:-fno-semantic-interposition>)
endif()
# Installed libraries carry no warning flags.
function(tributary_warnings)
  foreach(flag IN LISTS ARGN)
    target_compile_options(tributary_flags INTERFACE $<BUILD_INTERFACE:${flag}>)
  endforeach()
endfunction()
tributary_warnings(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                   -Wnon-virtual-dtor -Wold-style-cast)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports std:: internals under -O2 (PR 105651, PR 105329) and the operator delete of
  # coroutine frames (PR 103993); Clang keeps these checks.
  tributary_warnings(-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds
                     -Wno-mismatched-new-delete -Wno-maybe-uninitialized -Wno-stringop-overread)
endif()
if(TRIBUTARY_WERROR)
  tributary_warnings(-Werror)
endif()
if(TRIBUTARY_SANITIZE)
  target_compile_options(tributary_flags INTERFACE -fsanitize=${TRIBUTARY_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tributary_flags INTERFACE -fsanitize=${TRIBUTARY_SANITIZE})
endif()
# UBSan's checks fill a program with pointers. At a fixed address these are final: lld links
# `tributary` in 4 s instead of 13 s, and it starts in 0.55 s instead of 0.85 s.
if(TRIBUTARY_SANITIZE MATCHES "undefined")
  target_link_options(tributary_flags INTERFACE
                      $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  find_program(TRIBUTARY_LLD ld.lld-19)
  if(TRIBUTARY_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_link_options(tributary_flags INTERFACE -fuse-ld=lld-19)
  endif()
endif()
if(TRIBUTARY_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TRIBUTARY_FUZZ is ON, but ${CMAKE_CXX_COMPILER} is not Clang, so it has no "
                        "libFuzzer. Use the preset fuzz, or TRIBUTARY_FUZZ=OFF.")
  endif()
  # Counts what an input reaches, in the code under test only. Without libFuzzer's main(), which the
  # programs of tests/fuzz add.
  target_compile_options(tributary_flags INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TRIBUTARY_IS_TEST>>>:-fsanitize=fuzzer-no-link>)
  target_link_options(tributary_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# tributary_library(NAME SOURCES... DEPENDS targets...): a static library, or an interface one
# when it has headers only. Its target is tributary_NAME.
function(tributary_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  if(arg_SOURCES)
    add_library(tributary_${name} STATIC ${arg_SOURCES})
    target_link_libraries(tributary_${name} PUBLIC tributary_flags ${arg_DEPENDS})
  else()
    add_library(tributary_${name} INTERFACE)
    target_link_libraries(tributary_${name} INTERFACE tributary_flags ${arg_DEPENDS})
  endif()
endfunction()

# Properties of tests that start programs: each of these has its own threads, and several tests measure.
# So no other test runs beside them. A sanitizer's build measures nothing: there tests in memory run
# beside them, and ctest starts with them, so that both cores are busy until the end.
set(TRIBUTARY_STARTS_PROGRAMS RUN_SERIAL TRUE)
if(TRIBUTARY_SANITIZE)
  set(TRIBUTARY_STARTS_PROGRAMS RESOURCE_LOCK programs COST 1000)
endif()

# tributary_tests(NAME [STARTS_PROGRAMS] LABELS... DEPENDS targets...): one test program from every
# *_test.cc of the calling folder and of the sub-folders that have no CMakeLists.txt of their own.
# LABELS "threads" selects it for the ThreadSanitizer run.
function(tributary_tests name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STARTS_PROGRAMS" "" "LABELS;DEPENDS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  file(GLOB_RECURSE programs CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(program IN LISTS programs)
    cmake_path(GET program PARENT_PATH folder)
    list(FILTER sources EXCLUDE REGEX "^${folder}/")
  endforeach()
  add_executable(${name}_tests ${sources})
  target_link_libraries(${name}_tests PRIVATE tributary_test_support ${arg_DEPENDS})
  tributary_test_program(${name}_tests)
  set(properties TIMEOUT 240)
  if(arg_STARTS_PROGRAMS)
    list(APPEND properties ${TRIBUTARY_STARTS_PROGRAMS})
  endif()
  if(arg_LABELS)
    list(APPEND properties LABELS ${arg_LABELS})
  endif()
  # What ThreadSanitizer is for; nothing else has to be built with it.
  if("threads" IN_LIST arg_LABELS)
    if(NOT TARGET threads_tests)
      add_custom_target(threads_tests)
    endif()
    add_dependencies(threads_tests ${name}_tests)
  endif()
  tributary_add_tests(${name}_tests ${name} ${properties})
endfunction()

# tributary_add_tests(PROGRAM NAME PROPERTY VALUE...): adds each test of a program to ctest. A process
# starts slowly under a sanitizer (0.1 s and more), so there one process runs a fifth of the tests.
function(tributary_add_tests program name)
  if(NOT TRIBUTARY_SANITIZE)
    gtest_discover_tests(${program} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 PROPERTIES ${ARGN})
    return()
  endif()
  set(parts 5)
  foreach(part RANGE 1 ${parts})
    math(EXPR index "${part} - 1")
    set(test ${name}.part_${part}_of_${parts})
    add_test(NAME ${test} COMMAND ${program})
    set_tests_properties(${test} PROPERTIES ${ARGN})
    set_tests_properties(${test} PROPERTIES TIMEOUT 900 ENVIRONMENT
      "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${index};GTEST_BRIEF=1")
  endforeach()
endfunction()
