# cmake -D FUZZER= -D SEEDS= -D NAME= -D SECONDS= -D FOLDER= -P fuzz.cmake: runs a fuzzer on the
# files in tests/fuzz/<name>/ and on made ones; new files and findings land in FOLDER. A hang is an
# input that takes more than 5 s (sanitizers are slow), an input may allocate 64 MB.
cmake_minimum_required(VERSION 3.23)
file(MAKE_DIRECTORY ${FOLDER}/corpus ${FOLDER}/seeds)
set(known ${CMAKE_CURRENT_LIST_DIR}/${NAME})
if(NAME STREQUAL gguf)
  execute_process(COMMAND ${SEEDS} ${FOLDER}/seeds COMMAND_ERROR_IS_FATAL ANY)
endif()
file(GLOB files ${known}/*)
if(NOT files)
  set(known "")
endif()
execute_process(
  COMMAND ${FUZZER} ${FOLDER}/corpus ${FOLDER}/seeds ${known}
    -dict=${CMAKE_CURRENT_LIST_DIR}/${NAME}.dict -artifact_prefix=${FOLDER}/
    -max_total_time=${SECONDS} -max_len=4096 -timeout=5 -malloc_limit_mb=64 -rss_limit_mb=1024
    -print_final_stats=1 -verbosity=1
  RESULT_VARIABLE result ERROR_VARIABLE log)
string(REGEX MATCHALL "[^\n]*(ERROR|SUMMARY|runtime error|Test unit|stat::)[^\n]*" lines "${log}")
list(JOIN lines "\n" lines)
message(STATUS "${lines}")
if(result)
  message(STATUS "${log}")
  message(FATAL_ERROR "${NAME}: a finding is in ${FOLDER}")
endif()
