# Compiles through ccache where it is installed, unless the caller has named a launcher. Clones and
# work trees of one machine share what they have compiled: paths count from the source folder.
find_program(TRIBUTARY_CCACHE ccache)
if(TRIBUTARY_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
                                  CCACHE_NOHASHDIR=1 ${TRIBUTARY_CCACHE})
endif()
