# Configures again, as part of the next build, after packages were installed or removed. Optional parts
# (DPDK, gRPC, the race's rivals) are found when CMake configures, so a build folder that is older than
# a package would miss it.
set(TRIBUTARY_DPKG_STATUS /var/lib/dpkg/status) # dpkg rewrites it with every change.
if(EXISTS ${TRIBUTARY_DPKG_STATUS})
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                                                              ${TRIBUTARY_DPKG_STATUS})
endif()
