# The target header_check: compiles each header of the tree alone, so that every header includes
# what it needs. Not part of `all`; build it with `ninja header_check`.
function(tributary_header_check)
  file(GLOB folders RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/*)
  list(FILTER folders EXCLUDE REGEX "^build")
  set(sources)
  foreach(folder IN LISTS folders)
    if(NOT IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
      continue()
    endif()
    file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
         ${PROJECT_SOURCE_DIR}/${folder}/*.h)
    foreach(header IN LISTS headers)
      set(source ${CMAKE_BINARY_DIR}/header_check/${header}.cc)
      set(text "#include \"${header}\"\n#include \"${header}\"  // Twice: the guard works.\n")
      file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
      list(APPEND sources ${source})
    endforeach()
  endforeach()
  add_library(header_check OBJECT EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(header_check PRIVATE tributary_flags fmt::fmt tl::expected CLI11::CLI11
                        nlohmann_json::nlohmann_json)
  target_compile_options(header_check PRIVATE -O0)  # Only the messages matter.
endfunction()
