# Compiles through ccache where it is installed, unless the caller has named a launcher.
find_program(TRIBUTARY_CCACHE ccache)
if(TRIBUTARY_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TRIBUTARY_CCACHE})
endif()
