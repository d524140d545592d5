// @ts-check
/** The `.cmd` files that npm puts beside what it installs on Windows (cmd-shim 7): of a script, and of a program. */

const HEAD =
  "@ECHO off\r\nGOTO start\r\n:find_dp0\r\nSET dp0=%~dp0\r\nEXIT /b\r\n:start\r\nSETLOCAL\r\nCALL :find_dp0\r\n";

/** @param {string} target relative to the shim */
export const shimOfScript = (target) =>
  `${HEAD}\r\nIF EXIST "%dp0%\\node.exe" (\r\n  SET "_prog=%dp0%\\node.exe"\r\n) ELSE (\r\n  SET "_prog=node"\r\n  SET PATHEXT=%PATHEXT:;.JS;=;%\r\n)\r\n\r\nendLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & "%_prog%"  "%dp0%\\${target}" %*\r\n`;

/** @param {string} target relative to the shim */
export const shimOfProgram = (target) => `${HEAD}"%dp0%\\${target}"   %*\r\n`;
