/**
 * Builds the command line into dist/bundle/: `main.cjs` and the chunks that it loads when a command needs them.
 *
 * A bundle, because type stripping and resolving hundreds of small files would be most of a short command's time.
 * CommonJS, because in an ES module `import "node:http"` loads Node's whole fetch stack. `npx tsc` writes its own
 * output to dist/ beside it; no source folder may be called `bundle`.
 */
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'vite';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');
const bundle = join(dist, 'bundle');
const entry = 'main.cjs';

/** Packages that stay in node_modules: ssh2 looks for compiled helpers at places that only its own folder has. */
const external = ['ssh2'];

/** A controller that was started from an earlier build may still load one of its chunks. */
const keepOldChunksMs = 7 * 24 * 60 * 60 * 1000;

mkdirSync(bundle, { recursive: true });
const fresh = mkdtempSync(join(dist, 'building-'));
try {
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    ssr: { noExternal: true, external },
    build: {
      ssr: 'src/main.ts',
      outDir: fresh,
      target: 'node24',
      minify: true,
      sourcemap: true,
      rolldownOptions: {
        external: [/^node:/],
        experimental: { chunkOptimization: false },
        output: {
          format: 'cjs',
          entryFileNames: entry,
          chunkFileNames: '[name]-[hash].cjs',
        },
      },
    },
  });
  publish(fresh);
} finally {
  rmSync(fresh, { recursive: true, force: true });
}

/**
 * Moves a finished build into place, the entry last: a command that starts meanwhile gets the old build or the new one
 * as a whole, since chunks are named by their content.
 */
function publish(folder: string): void {
  const names = readdirSync(folder);
  const now = new Date();
  for (const name of names.toSorted((a, b) => Number(a === entry) - Number(b === entry))) {
    utimesSync(join(folder, name), now, now);
    renameSync(join(folder, name), join(bundle, name));
  }
  for (const name of readdirSync(bundle)) {
    if (names.includes(name)) continue;
    const age = now.getTime() - statSync(join(bundle, name)).mtimeMs;
    if (age > keepOldChunksMs) rmSync(join(bundle, name), { recursive: true });
  }
}
