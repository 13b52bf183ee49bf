# What `cmake --install` puts where. Component `library`: libtributary with its header, pkg-config
# and CMake files; component `program`: the tributary program and the Python package, where
# `tributary launch` looks for it.
include(GNUInstallDirs)
function(tributary_packaging)
  include(CMakePackageConfigHelpers)
  install(TARGETS tributary_c EXPORT tributary COMPONENT library
          LIBRARY COMPONENT library NAMELINK_COMPONENT library)
  install(FILES ${PROJECT_SOURCE_DIR}/host/include/tributary.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)

  set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tributary)
  # The library needs nothing else, so the exported target is the whole package.
  install(EXPORT tributary NAMESPACE tributary:: FILE tributary-config.cmake
          DESTINATION ${config_folder} COMPONENT library)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/tributary-config-version.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/tributary-config-version.cmake
          DESTINATION ${config_folder} COMPONENT library)

  file(RELATIVE_PATH TRIBUTARY_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/tributary.pc.in ${CMAKE_BINARY_DIR}/tributary.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/tributary.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

  if(TARGET tributary)
    install(TARGETS tributary RUNTIME COMPONENT program)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/tributary
            DESTINATION ${CMAKE_INSTALL_DATADIR}/tributary/python COMPONENT program
            FILES_MATCHING PATTERN "*.py")
  endif()
endfunction()
