# The target header_check: compiles alone each header that no source includes first, so that every
# header includes what it needs. A source proves its first header in every build, and
# tools/check-tree.sh holds each source to including its own header first. Tests prove nothing: headers
# of the standard library are precompiled for them. Not part of `all`; build
# it with `ninja header_check`.
function(tributary_header_check)
  file(GLOB folders ${PROJECT_SOURCE_DIR}/*)
  list(FILTER folders EXCLUDE REGEX "/build[^/]*$")
  set(headers)
  set(sources)
  foreach(folder IN LISTS folders)
    if(NOT IS_DIRECTORY ${folder})
      continue()
    endif()
    file(GLOB_RECURSE found RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${folder}/*.h)
    list(APPEND headers ${found})
    if(NOT folder MATCHES "/tests$")
      file(GLOB_RECURSE found CONFIGURE_DEPENDS ${folder}/*.cc)
      list(APPEND sources ${found})
    endif()
  endforeach()
  foreach(source IN LISTS sources)
    file(STRINGS ${source} include REGEX "^ *# *include" LIMIT_COUNT 1)
    if(include MATCHES "\"(.*)\"")
      list(REMOVE_ITEM headers ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(checks)
  foreach(header IN LISTS headers)
    set(check ${CMAKE_BINARY_DIR}/header_check/${header}.cc)
    file(CONFIGURE OUTPUT ${check} CONTENT "#include \"${header}\"\n" @ONLY)
    list(APPEND checks ${check})
  endforeach()
  add_library(header_check OBJECT EXCLUDE_FROM_ALL ${checks})
  target_link_libraries(header_check PRIVATE tributary_flags fmt::fmt tl::expected CLI11::CLI11
                        nlohmann_json::nlohmann_json)
  target_compile_options(header_check PRIVATE -O0)  # Only the messages matter.
endfunction()
