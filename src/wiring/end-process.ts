// Ending a program of our own by its pid. The caller has made sure that the pid is that program's: it answered a moment ago.

import { runProcess } from '../remote/process.ts';

/** Asks the process to end (SIGTERM). Nothing happens when it is gone already. */
export async function endProcess(pid: number): Promise<void> {
  await runProcess({ argv: ['kill', '-TERM', String(pid)], timeoutMs: 5_000, outputMost: 1_000 });
}
