/**
 * Builds the command line into dist/bundle/, the dashboard into dist/dashboard/, and the settings template
 * dist/settings.json. No source folder may be
 * called `bundle`, because `npx tsc` writes to dist/ too. A bundle, because type stripping and resolving hundreds of
 * files would dominate the time of a short command. CommonJS, because `import "node:http"` in an ES module loads Node's
 * whole fetch stack.
 */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { typescriptClient } from './typescript-client.ts';
import { publishSettingsTemplate } from './settings-template.ts';

const root = join(import.meta.dirname, '..');
const bundle = join(root, 'dist/bundle');
const entry = 'main.cjs';

/** In the bundle's folder: checksum of the last written settings template. */
const settingsChecksum = 'settings.sha256';

/** Packages that stay in node_modules: ssh2 finds its compiled helpers only in its own folder. */
const external = ['ssh2'];

/** A controller of an earlier build may still load its chunks. Delete them after this time. */
const keepOldChunksMs = 7 * 24 * 60 * 60 * 1000;

/**
 * Modules that are loaded together are one chunk, because each small file takes about half a millisecond to load. Every
 * command loads the first row, most load the next. A module belongs to the first row that imports it statically.
 */
const chunkGroups: readonly (readonly [chunk: string, entries: readonly string[]])[] = [
  ['start', ['src/wiring/start.ts', 'src/catalogue/did-you-mean.ts']],
  // Small modules that several rows need, so that one row does not load another.
  [
    'shared',
    [
      'src/app/format.ts',
      'src/core/model/omit-undefined.ts',
      'src/catalogue/accelerators.ts',
      'src/core/model/log-lines.ts',
      'src/core/model/spec.ts',
      'src/cli/context.ts',
      'src/cli/controller.ts',
      'src/cli/help.ts',
      'src/cli/scan.ts',
      'src/cli/command.ts',
      'src/cli/find-command.ts',
      'src/cli/foreign-commands.ts',
      'src/cli/parse.ts',
      'src/cli/completion/proposals.ts',
      'src/cli/interrupt.ts',
      'src/cli/prompt.ts',
      'src/cli/render/aligned.ts',
    ],
  ],
  ['settings', ['src/app/settings.ts']],
  // Training scripts wait for these commands, which need no module of the jobs.
  ['lab-store', ['src/wiring/lab.ts', 'src/cli/tpu/commands/window-reports.ts', 'src/store/stored-job.ts']],
  // Rows and sentences about jobs, and who may read them.
  ['views', ['src/app/views.ts', 'src/app/logs.ts', 'src/core/policy/permissions.ts']],
  ['tpu', ['src/cli/tpu/dispatch.ts', 'src/cli/tpu/resolve-user.ts']],
  // `tpu check` runs often and needs no rules.
  ['lab-check', ['src/cli/tpu/commands/check.ts']],
  ['commands', ['src/cli/dispatch.ts']],
  [
    'store',
    [
      'src/wiring/client.ts',
      'src/wiring/cluster-submissions.ts',
      'src/wiring/controller-service.ts',
      // Each command that reads one job checks the permission.
      'src/app/require-permission.ts',
    ],
  ],
  ['server-client', ['src/wiring/server-client.ts']],
  ['screens', ['src/cli/commands/list.ts', 'src/cli/commands/show.ts']],
  // The state of one job, with the rules that decide about it.
  ['one-job', ['src/app/show.ts', 'src/app/history.ts', 'src/cli/render/show.ts', 'src/cli/render/history.ts']],
  ['log', ['src/cli/commands/logs.ts', 'src/cli/logs/print.ts', 'src/app/stored-logs.ts']],
  ['cluster', ['src/wiring/cluster.ts']],
  ['submit', ['src/cli/commands/submit.ts']],
];

const chunkOf = new Map<string, string>();

/** Follows static imports only. */
function assignChunks(this: { getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null }): void {
  const assign = (id: string, chunk: string): void => {
    const info = this.getModuleInfo(id);
    if (info === null || chunkOf.has(id) || id.startsWith('node:')) return;
    chunkOf.set(id, chunk);
    for (const imported of info.importedIds) assign(imported, chunk);
  };
  for (const [chunk, entries] of chunkGroups) for (const entry of entries) assign(join(root, entry), chunk);
}

function refuseNodeModule(id: string, importer: string | undefined): void {
  if (id.startsWith('node:')) throw new Error(`${importer} imports ${id}, which no browser has.`);
}

mkdirSync(bundle, { recursive: true });
const fresh = mkdtempSync(join(bundle, 'building-'));
try {
  // A dynamic import, because vite fails to load on a machine without a binary for it.
  const { build } = await import('vite');
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [{ name: 'assign-chunks', buildEnd: assignChunks }],
    ssr: { noExternal: true, external },
    build: {
      ssr: 'src/main.ts',
      outDir: fresh,
      target: 'node24',
      minify: true,
      sourcemap: true,
      rolldownOptions: {
        external: [/^node:/],
        // The rows decide which modules are loaded together; such an import still loads its chunk on demand.
        checks: { ineffectiveDynamicImport: false },
        output: {
          format: 'cjs',
          entryFileNames: entry,
          chunkFileNames: '[name]-[hash].cjs',
          codeSplitting: {
            groups: chunkGroups.map(([name]) => ({ name, test: (id: string) => chunkOf.get(id) === name })),
          },
        },
      },
    },
  });
  publish(fresh);
  // The package as a library. One file, because its users bundle it or load all of it.
  const sdk = join(root, 'dist/sdk');
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    ssr: { noExternal: true, external },
    build: {
      ssr: 'src/wiring/connect.ts',
      outDir: sdk,
      target: 'node20',
      rolldownOptions: {
        external: [/^node:/],
        checks: { ineffectiveDynamicImport: false },
        output: { format: 'es', entryFileNames: 'index.js', codeSplitting: false },
      },
    },
  });
  await build({
    root: join(root, 'src/dashboard'),
    configFile: false,
    logLevel: 'warn',
    base: './',
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    plugins: [{ name: 'runs-in-a-browser', enforce: 'pre', resolveId: refuseNodeModule }],
    build: {
      outDir: join(root, 'dist/dashboard'),
      emptyOutDir: true,
      target: 'es2022',
      // The policy of the pages allows no script in an attribute or in the page.
      modulePreload: { polyfill: false },
      assetsInlineLimit: 0,
    },
  });
  const read = (path: string): string => readFileSync(join(root, path), 'utf8');
  const types = typescriptClient(read('docs/openapi.json'), read('src/api/arguments.schema.json'));
  writeFileSync(join(sdk, 'index.d.ts'), types);
  const isPublished = publishSettingsTemplate({
    source: join(root, 'src/app/cluster/settings.template.json'),
    file: join(root, 'dist/settings.json'),
    checksumFile: join(bundle, settingsChecksum),
  });
  if (!isPublished) console.error('dist/settings.json was edited, and stays as it is.');
} catch (error) {
  // An outdated bundle would hide the new source. Without a bundle bin/jobman runs the source.
  rmSync(join(bundle, entry), { force: true });
  const reason = error instanceof Error ? error.message : String(error);
  console.error(`The bundle cannot be built. ${stripVTControlCharacters(reason)}`);
  process.exitCode = 1;
} finally {
  rmSync(fresh, { recursive: true, force: true });
}

/** Moves the entry last: chunk names contain their hash, so a command that starts meanwhile gets one whole build. */
function publish(folder: string): void {
  const names = readdirSync(folder);
  const now = new Date();
  for (const name of names.toSorted((a, b) => Number(a === entry) - Number(b === entry))) {
    utimesSync(join(folder, name), now, now);
    renameSync(join(folder, name), join(bundle, name));
  }
  for (const name of readdirSync(bundle)) {
    if (names.includes(name) || name === settingsChecksum) continue;
    const age = now.getTime() - statSync(join(bundle, name)).mtimeMs;
    if (age > keepOldChunksMs) rmSync(join(bundle, name), { recursive: true });
  }
}
