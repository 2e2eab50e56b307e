// Ending a program of our own by its pid. The caller has made sure that the pid is that program's: it answered a moment ago.

import { runProcess } from '../remote/process.ts';

/** Asks the process to end (SIGTERM). Nothing happens when it is gone already, or when that is no pid of a program. */
export async function endProcess(pid: number): Promise<void> {
  // It comes from a file, and `kill` takes a number below 1 for a group of processes, or for all.
  if (!Number.isSafeInteger(pid) || pid <= 1) return;
  await runProcess({ argv: ['kill', '-TERM', String(pid)], timeoutMs: 5_000, outputMost: 1_000 });
}
