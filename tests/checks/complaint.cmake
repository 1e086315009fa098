# cmake -D PROGRAM= -D "ARGUMENTS=..." -P complaint.cmake
# PROGRAM ends with code 1 and says why in one line, and nothing else.
cmake_minimum_required(VERSION 3.23)
separate_arguments(arguments UNIX_COMMAND "${ARGUMENTS}")
execute_process(COMMAND ${PROGRAM} ${arguments}
  RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT code EQUAL 1)
  message(FATAL_ERROR "${PROGRAM} ${ARGUMENTS} ended with ${code}, not with 1:\n${output}${errors}")
endif()
if(NOT output STREQUAL "" OR NOT errors MATCHES "^[^\n]+\n$")
  message(FATAL_ERROR "expected one line of complaint, found:\n${output}\nand\n${errors}")
endif()
