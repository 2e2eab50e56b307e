/**
 * The entry of the `jobman` command, and the only file that touches `process`: everything else is told its arguments,
 * environment and streams, so that a test can call it.
 *
 * It is written to become CommonJS as well (no top-level await), because in an ES module `import "node:http"` and its
 * like load Node's whole fetch stack, which costs more than the rest of a short command.
 */
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { version } from './version.ts';

// Compiled code is kept in the user's own cache folder. A shared temporary folder would let one user run another's
// code. An environment without a home gets no cache: it is only slower.
const cacheHome = process.env['XDG_CACHE_HOME'] || (process.env['HOME'] && join(process.env['HOME'], '.cache'));
if (cacheHome) enableCompileCache(join(cacheHome, 'jobman', 'v8'));

// `jobman list | head -1` closes our output early. The reader has what it wanted, so this is an ending, not an error.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit();
  });
}

import('./cli/run.ts')
  .then(({ run }) =>
    run(process.argv.slice(2), {
      version,
      env: process.env,
      // Opening standard input has a cost and a side effect on pipes, so only a command that reads it pays.
      get stdin() {
        return process.stdin;
      },
      stdout: process.stdout,
      stderr: process.stderr,
    }),
  )
  .then(
    (exitCode) => {
      // Not `process.exit`: output to a pipe may still be on its way.
      process.exitCode = exitCode;
    },
    (error: unknown) => {
      const text = error instanceof Error ? error.stack : String(error);
      process.stderr.write(`jobman ${version} stopped because of a mistake of its own:\n${text}\n`);
      process.exitCode = 1;
    },
  );
