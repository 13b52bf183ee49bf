# Writes the commit of SOURCE as a C++ string into FILE, if it differs from FILE's content:
#   cmake -DSOURCE=DIR -DFILE=PATH -P cmake/commit.cmake
set(commit "unknown")
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE head
                RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT failed)
  set(commit ${head})
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no
                  OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND commit "-modified")
  endif()
endif()
file(CONFIGURE OUTPUT ${FILE} CONTENT "\"${commit}\"\n")
