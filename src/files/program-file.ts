// Program file: starts the program that last ran a controller of this home. What outlives an upgrade, such as the script
// of a job or a service, calls this file, because the next version may be in another folder.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { quote } from '../catalogue/shell.ts';
import { writeAtomically } from './files.ts';

/** The command line of the file. */
export function homeLauncher(home: string): readonly string[] {
  return ['/bin/sh', programFile(home)];
}

/** `launcher` is the command line of this program. Throws the system's error. */
export function writeProgramFile(home: string, launcher: readonly string[]): void {
  const text = `exec ${launcher.map(quote).join(' ')} "$@"\n`;
  if (textOf(programFile(home)) !== text) writeAtomically(programFile(home), text);
}

function programFile(home: string): string {
  return join(home, 'program');
}

function textOf(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}
