# Compiles through ccache where it is installed, unless the caller has named a launcher. Clones and
# work trees of one machine share what they have compiled: paths count from the source folder.
find_program(TRIBUTARY_CCACHE ccache)
if(TRIBUTARY_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # Takes the list of included files from the compiler. Otherwise ccache preprocesses each source first.
  set(environment CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1)
  # What ccache needs to keep sources with precompiled headers.
  list(APPEND environment CCACHE_SLOPPINESS=pch_defines,time_macros)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${environment} ${TRIBUTARY_CCACHE})
endif()
