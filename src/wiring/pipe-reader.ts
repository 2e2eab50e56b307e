// Pipe reader: whether somebody still reads our pipe. A program learns that by writing (EPIPE), and one that watches may have nothing
// to write for hours. Node cannot poll a descriptor that it only writes to; GNU tail does, and ends by SIGPIPE when the reader has gone.

import { spawn } from 'node:child_process';
import { fstatSync } from 'node:fs';

/**
 * Calls back once when the reader of that descriptor has gone, where it is a pipe, until the returned function is called. Never does
 * where the machine has no tail of GNU. `pid` is our own process.
 */
export function watchPipeReader(pid: number, descriptor: number, gone: () => void): () => void {
  if (!fstatSync(descriptor).isFIFO()) return () => undefined;
  // It looks for our process too, so it does not outlive a kill.
  const tail = spawn('tail', ['-f', `--pid=${pid}`, '/dev/null'], { stdio: ['ignore', descriptor, 'ignore'] });
  tail.on('error', () => undefined);
  tail.on('exit', (_code, signal) => {
    if (signal === 'SIGPIPE') gone();
  });
  tail.unref();
  return () => void tail.kill();
}
