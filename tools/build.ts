/**
 * Builds the command line into dist/bundle/: `main.cjs` and the chunks that it loads when a command needs them; and
 * dist/settings.json, the template of settings.
 *
 * A bundle, because type stripping and resolving hundreds of small files would be most of a short command's time.
 * CommonJS, because in an ES module `import "node:http"` loads Node's whole fetch stack. `npx tsc` writes its own
 * output to dist/ beside it; no source folder may be called `bundle`.
 */
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { publishSettings } from './settings-template.ts';

const root = join(import.meta.dirname, '..');
const bundle = join(root, 'dist/bundle');
const entry = 'main.cjs';

/** Beside the bundle: the sum of the template of settings as it was written last. */
const settingsMark = 'settings.sha256';

/** Packages that stay in node_modules: ssh2 looks for compiled helpers at places that only its own folder has. */
const external = ['ssh2'];

/** A controller that was started from an earlier build may still load one of its chunks. After this time they go. */
const keepOldChunksMs = 7 * 24 * 60 * 60 * 1000;

/**
 * Files that are loaded together are one chunk: finding, reading and preparing each of a dozen small ones takes about
 * half a millisecond. The first row is what every command loads, the next what most do; a module goes into the first
 * chunk that needs it at once.
 */
const together: readonly (readonly [chunk: string, entries: readonly string[]])[] = [
  ['start', ['src/wiring/start.ts', 'src/catalogue/did-you-mean.ts']],
  // Small things that the parts below share: one part is not to bring another.
  [
    'words',
    [
      'src/app/figures.ts',
      'src/core/given.ts',
      'src/catalogue/accelerators.ts',
      'src/core/log-lines.ts',
      'src/core/spec.ts',
      'src/cli/context.ts',
      'src/cli/controller.ts',
      'src/cli/help.ts',
      'src/cli/scan.ts',
      'src/cli/command.ts',
      'src/cli/other-words.ts',
      'src/cli/parse.ts',
      'src/cli/completion/proposals.ts',
      'src/cli/leave.ts',
      'src/cli/prompt.ts',
      'src/cli/render/aligned.ts',
    ],
  ],
  ['settings', ['src/app/settings.ts']],
  // What training scripts wait for is this one and nothing of the jobs' part.
  ['lab-record', ['src/wiring/lab.ts', 'src/cli/tpu/commands/upd-log.ts', 'src/store/stored-job.ts']],
  // The rules, as far as the phase of a job takes them: every command that knows jobs.
  ['rules', ['src/core/phase.ts']],
  ['tpu', ['src/cli/tpu/dispatch.ts', 'src/cli/tpu/people.ts']],
  // What a user of the lab looks at all day, without what decides.
  ['lab-looks', ['src/cli/tpu/commands/check.ts']],
  ['commands', ['src/cli/dispatch.ts']],
  ['record', ['src/wiring/client.ts', 'src/wiring/cluster-keeper.ts', 'src/wiring/controller-service.ts']],
  ['screens', ['src/cli/commands/list.ts', 'src/cli/commands/show.ts']],
  ['log-files', ['src/app/logs.ts']],
  // The state of one job, which takes the rules that decide about it.
  ['one-job', ['src/app/show.ts', 'src/cli/commands/history.ts']],
  ['log', ['src/cli/commands/logs.ts']],
  ['cluster', ['src/wiring/cluster.ts']],
  ['submit', ['src/cli/commands/submit.ts']],
];

/** The chunk of each module that is in one of them. */
const placeOf = new Map<string, string>();

/** Walks what the entries import at once, and not what they load later. */
function placeModules(this: { getModuleInfo(id: string): { readonly importedIds: readonly string[] } | null }): void {
  const place = (id: string, chunk: string): void => {
    const info = this.getModuleInfo(id);
    if (info === null || placeOf.has(id) || id.startsWith('node:')) return;
    placeOf.set(id, chunk);
    for (const imported of info.importedIds) place(imported, chunk);
  };
  for (const [chunk, entries] of together) for (const entry of entries) place(join(root, entry), chunk);
}

mkdirSync(bundle, { recursive: true });
const fresh = mkdtempSync(join(bundle, 'building-'));
try {
  // Loaded here, because on a machine for which it has no binary it fails already when it is loaded.
  const { build } = await import('vite');
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [{ name: 'place-modules', buildEnd: placeModules }],
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
        // The rows above say what is loaded together; such an import still loads its chunk late.
        checks: { ineffectiveDynamicImport: false },
        output: {
          format: 'cjs',
          entryFileNames: entry,
          chunkFileNames: '[name]-[hash].cjs',
          codeSplitting: {
            groups: together.map(([name]) => ({ name, test: (id: string) => placeOf.get(id) === name })),
          },
        },
      },
    },
  });
  publish(fresh);
  const isRenewed = publishSettings({
    source: join(root, 'src/app/cluster/settings.template.json'),
    file: join(root, 'dist/settings.json'),
    mark: join(bundle, settingsMark),
  });
  if (!isRenewed) console.error('dist/settings.json was edited, and stays as it is.');
} catch (error) {
  // An earlier bundle would hide this source from whoever runs bin/jobman. Without one it runs the source itself.
  rmSync(join(bundle, entry), { force: true });
  const reason = error instanceof Error ? error.message : String(error);
  console.error(`The bundle cannot be built. ${stripVTControlCharacters(reason)}`);
  process.exitCode = 1;
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
    if (names.includes(name) || name === settingsMark) continue;
    const age = now.getTime() - statSync(join(bundle, name)).mtimeMs;
    if (age > keepOldChunksMs) rmSync(join(bundle, name), { recursive: true });
  }
}
