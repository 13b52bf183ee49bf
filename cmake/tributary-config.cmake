# The installed package `tributary`:
#
#   find_package(tributary REQUIRED)                      tributary::tributary, the C library
#   find_package(tributary REQUIRED COMPONENTS programs)  tributary::programs, for packet programs,
#                                                         and tributary::program_testing
#
# The C library needs nothing else. Only `programs` looks for other packages.
include(CMakeFindDependencyMacro)

if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/tributary-library.cmake)
  include(${CMAKE_CURRENT_LIST_DIR}/tributary-library.cmake)
  set(tributary_library_FOUND TRUE)
endif()

if(NOT tributary_FIND_COMPONENTS)
  set(tributary_FIND_COMPONENTS library)
  set(tributary_FIND_REQUIRED_library TRUE)
endif()
foreach(component IN LISTS tributary_FIND_COMPONENTS)
  if(component STREQUAL "programs" AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/tributary-programs.cmake)
    find_dependency(Threads)
    find_dependency(fmt)
    find_dependency(tl-expected)
    find_dependency(CLI11)
    find_dependency(tomlplusplus)
    find_dependency(nlohmann_json)
    find_dependency(PkgConfig)
    pkg_check_modules(PCAP REQUIRED IMPORTED_TARGET libpcap)
    pkg_check_modules(GZIP REQUIRED IMPORTED_TARGET zlib)
    pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
    include(${CMAKE_CURRENT_LIST_DIR}/tributary-programs.cmake)
    if(TARGET tributary::dpdk)  # The libraries were built with DPDK.
      pkg_check_modules(DPDK REQUIRED QUIET libdpdk>=22.11)
    endif()
    set(tributary_programs_FOUND TRUE)
  endif()
  if(NOT tributary_${component}_FOUND AND tributary_FIND_REQUIRED_${component})
    set(tributary_FOUND FALSE)
    string(CONCAT tributary_NOT_FOUND_MESSAGE
           "component '${component}' is not installed. Allowed: library, programs, each after "
           "'cmake --install BUILD --component COMPONENT'.")
  endif()
endforeach()
