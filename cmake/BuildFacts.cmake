# What `tributary --version` says about the build.

# tributary_write_build_facts(FILE): writes the compiler, its flags and the optional parts as C++
# constants. Leaves out flags that name folders of the building machine.
function(tributary_write_build_facts file)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  set(flags "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  string(REGEX REPLACE "-f[a-z]+-prefix-map=[^ ]*" "" flags "${flags}")
  string(REGEX REPLACE " +" " " flags "${flags}")
  string(STRIP "${flags}" flags)

  set(features "")
  foreach(part "dpdk:TRIBUTARY_HAS_DPDK" "gmac:TRIBUTARY_IPSEC_MB" "grpc:TRIBUTARY_GRPC" "mpi:MPI_CXX_FOUND")
    string(REGEX MATCH "^([a-z]+):(.*)$" part "${part}")
    string(APPEND features " $<IF:$<BOOL:${${CMAKE_MATCH_2}}>,+,->${CMAKE_MATCH_1}")
  endforeach()
  if(TRIBUTARY_SANITIZE)
    string(APPEND features " +sanitizers=${TRIBUTARY_SANITIZE}")
  endif()
  string(STRIP "${features}" features)

  set(text "inline constexpr std::string_view kBuildCompiler =\n    R\"(${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION})\";\n")
  string(APPEND text "inline constexpr std::string_view kBuildFlags = R\"(${flags})\";\n"
         "inline constexpr std::string_view kBuildFeatures = R\"(${features})\";\n")
  file(GENERATE OUTPUT ${file} CONTENT "namespace tributary::cli {\n${text}}  // namespace tributary::cli\n")
endfunction()
