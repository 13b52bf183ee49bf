# Makes a C++ source that holds text files as constants. A script:
#
#   cmake -DOUTPUT=embedded.cc -DHEADER=folder/embedded.h -DNAMESPACE=a::b -DFILES="x.html;y.css" -P EmbedFiles.cmake
#
# The header declares for each file a constant: kStyleCss for style.css.
set(content "// Made by cmake/EmbedFiles.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n")
foreach(file IN LISTS FILES)
  file(READ ${file} text)
  cmake_path(GET file FILENAME name)
  string(REGEX MATCHALL "[a-z]+" words ${name})
  set(constant k)
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND constant ${first}${rest})
  endforeach()
  string(APPEND content "const std::string_view ${constant} = R\"embedded(${text})embedded\";\n\n")
endforeach()
string(APPEND content "}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${content}")
