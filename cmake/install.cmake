# What `cmake --install` puts where: programs, plugins, data, manual pages, completions; and a Debian
# package of it by `cpack`. The program finds its data and plugins from where it stands.
include(GNUInstallDirs)
set(data ${CMAKE_INSTALL_DATADIR}/tandem)
install(TARGETS tandem tandem-fit RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(plugin tandem_simgrid tandem_mpi tandem_loopback tandem_cuda)
  if(TARGET ${plugin})
    # Beside bin, not in the architecture's folder: base/plugin.cpp looks there.
    install(TARGETS ${plugin} LIBRARY DESTINATION lib/tandem)
  endif()
endforeach()
install(DIRECTORY topology/presets DESTINATION ${data}/topology)
install(DIRECTORY workload/frameworks DESTINATION ${data}/workload FILES_MATCHING PATTERN "*.toml")
install(FILES workload/best_mfu.csv workload/calibrated_run.toml workload/uncalibrated.toml DESTINATION ${data}/workload)
install(DIRECTORY report/page/web DESTINATION ${data}/report/page)
install(DIRECTORY scenarios DESTINATION ${data} FILES_MATCHING PATTERN "*.toml" PATTERN "*.csv"
  PATTERN "*.json" PATTERN "config" EXCLUDE PATTERN "run" EXCLUDE)
install(DIRECTORY validation/published DESTINATION ${data}/validation FILES_MATCHING
  PATTERN "*.csv" PATTERN "*.md")
install(DIRECTORY validation/kernels DESTINATION ${data}/validation FILES_MATCHING PATTERN "*.csv")
install(PROGRAMS validation/shaped-cluster DESTINATION ${data}/validation)
# The engine of live pages, if ./dev wasm built it.
install(FILES ${PROJECT_SOURCE_DIR}/build/wasm/tandem.js ${PROJECT_SOURCE_DIR}/build/wasm/tandem.wasm.txt
  DESTINATION ${data}/report/page/web OPTIONAL)
if(TANDEM_D3)
  install(FILES ${TANDEM_D3} DESTINATION ${data}/report/page/web)
endif()

# All that is installed, and nothing else: no tests.
add_custom_target(installed)
# shell_file(PROGRAM KIND FILE FOLDER): what PROGRAM prints about itself.
function(shell_file program kind file folder)
  set(made ${PROJECT_BINARY_DIR}/shell/${kind}/${file})
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/shell/${kind})
  add_custom_command(OUTPUT ${made} COMMAND ${program} --shell-file ${kind} > ${made}
    DEPENDS ${program} VERBATIM)
  add_custom_target(${program}-${kind} ALL DEPENDS ${made})
  add_dependencies(installed ${program}-${kind})
  install(FILES ${made} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
endfunction()
foreach(program tandem tandem-fit)
  shell_file(${program} man ${program}.1 man/man1)
  shell_file(${program} bash ${program} bash-completion/completions)
  shell_file(${program} zsh _${program} zsh/site-functions)
  shell_file(${program} fish ${program}.fish fish/vendor_completions.d)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "Tandem developers <developers@tandem.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "one schedule of a large training job, simulated and run for real")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
