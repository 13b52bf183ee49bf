# What `cmake --install` puts where, by component:
#   program        the tributary program, its man pages and shell completions, files for Prometheus
#                  and Grafana
#   python         the Python package, where `tributary launch` looks for it
#   library        libtributary with its header, pkg-config and CMake files
#   programs       static libraries, headers and CMake files for packet programs outside this tree
#   documentation  the guides, examples and scenario files
# debian/rules makes a package of each.
include(GNUInstallDirs)

# The package `tributary` for find_package(). Its configuration includes the files of the components
# that are installed.
function(tributary_package_files component)
  set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tributary)
  install(EXPORT tributary-${component} NAMESPACE tributary:: DESTINATION ${config_folder}
          COMPONENT ${component})
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/tributary-config.cmake
                ${CMAKE_BINARY_DIR}/tributary-config-version.cmake
          DESTINATION ${config_folder} COMPONENT ${component})
endfunction()

# The names of libraries, in the order of the tree, and the headers that they need. Packet programs
# link tributary::programs, and their tests tributary::program_testing.
function(tributary_program_packaging)
  set(libraries flags base auth wire microcode memory timers engine engine_json engine_model io io_capture io_dpdk
                io_inline service log capture_runs live_service program_main step_machine test_support
                program_testing)
  set(folders base auth wire microcode memory timers engine io)
  set(headers programs/live_service.h programs/message_relay.h
              programs/program_port.h programs/capture_feed.h programs/capture_output.h programs/capture_program.h
              programs/capture_run.h programs/packet_program.h programs/program_instance.h
              programs/run_on_live.h programs/run_on_model.h programs/run_report.h cli/program_main.h
              tests/engine/step_machine.h tests/programs/interleaved_run.h tests/support/seed.h)
  foreach(library IN LISTS libraries)
    set_target_properties(tributary_${library} PROPERTIES EXPORT_NAME ${library})
  endforeach()
  set_target_properties(tributary_program_main PROPERTIES EXPORT_NAME programs)
  # A process() without co_await and co_return is no coroutine: it would crash.
  target_compile_options(tributary_program_main INTERFACE -Werror=return-type)
  list(TRANSFORM libraries PREPEND tributary_)
  if(TARGET dpdk_clean)
    # The places of DPDK's libraries: a program then has --port dpdk:..., too.
    set_target_properties(dpdk_clean PROPERTIES EXPORT_NAME dpdk)
    list(APPEND libraries dpdk_clean)
  endif()
  # Builds the component and nothing else.
  add_custom_target(program_package)
  add_dependencies(program_package ${libraries})
  install(TARGETS ${libraries} EXPORT tributary-programs
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/tributary COMPONENT programs)
  set(include_folder ${CMAKE_INSTALL_INCLUDEDIR}/tributary)
  list(TRANSFORM folders PREPEND ${PROJECT_SOURCE_DIR}/)
  install(DIRECTORY ${folders} DESTINATION ${include_folder} COMPONENT programs
          FILES_MATCHING PATTERN "*.h")
  foreach(header IN LISTS headers)
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${include_folder}/${folder}
            COMPONENT programs)
  endforeach()
  tributary_package_files(programs)
endfunction()

# Man pages and shell completions come from the program itself. Programs with sanitizers are not for
# installation, so they do without.
function(tributary_command_line_packaging)
  if(TRIBUTARY_SANITIZE)
    return()
  endif()
  set(script ${PROJECT_SOURCE_DIR}/tools/describe-commands.sh)
  set(overview ${PROJECT_SOURCE_DIR}/docs/tributary.7)
  set(folder ${CMAKE_BINARY_DIR}/commands)
  add_custom_command(OUTPUT ${folder}/done
                     COMMAND ${script} $<TARGET_FILE:tributary> ${overview} ${folder}
                     DEPENDS tributary ${script} ${overview}
                     COMMENT "Describing the commands" VERBATIM)
  add_custom_target(command_line_files ALL DEPENDS ${folder}/done)
  install(DIRECTORY ${folder}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT program OPTIONAL)
endfunction()

# Not documentation: debhelper compresses that, and Prometheus reads no compressed rules.
function(tributary_operations_packaging)
  set(ops ${PROJECT_SOURCE_DIR}/ops)
  install(FILES ${ops}/prometheus.yml ${ops}/alerts.yml ${ops}/alerts_test.yml ${ops}/grafana.json
          DESTINATION ${CMAKE_INSTALL_DATADIR}/tributary/ops COMPONENT program)
endfunction()

function(tributary_documentation_packaging)
  set(folder ${CMAKE_INSTALL_DOCDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${folder}
          COMPONENT documentation)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
                    ${PROJECT_SOURCE_DIR}/experiments
          DESTINATION ${folder} COMPONENT documentation
          PATTERN "*.7" EXCLUDE PATTERN "results" EXCLUDE PATTERN "__pycache__" EXCLUDE)
endfunction()

function(tributary_packaging)
  include(CMakePackageConfigHelpers)
  install(TARGETS tributary_c EXPORT tributary-library COMPONENT library
          LIBRARY COMPONENT library NAMELINK_COMPONENT library)
  install(FILES ${PROJECT_SOURCE_DIR}/host/include/tributary.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)

  write_basic_package_version_file(${CMAKE_BINARY_DIR}/tributary-config-version.cmake
                                   COMPATIBILITY SameMinorVersion)
  tributary_package_files(library)
  tributary_program_packaging()

  file(RELATIVE_PATH TRIBUTARY_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/tributary.pc.in ${CMAKE_BINARY_DIR}/tributary.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/tributary.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

  if(TARGET tributary)
    install(TARGETS tributary RUNTIME COMPONENT program)
    tributary_command_line_packaging()
    tributary_operations_packaging()
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/tributary
            DESTINATION ${CMAKE_INSTALL_DATADIR}/tributary/python COMPONENT python
            FILES_MATCHING PATTERN "*.py")
  endif()
  tributary_documentation_packaging()
endfunction()
