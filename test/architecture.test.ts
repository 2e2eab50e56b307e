/**
 * Checks every import of src/ against the table of allowed arrows below, and the linter's configuration against that
 * table.
 */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, matchesGlob, relative } from 'node:path';
import { suite, test } from 'node:test';
import { parseSync } from 'vite';
import { root } from './support/root.ts';

/** The allowed imports of each folder, besides itself and the catalogue: a folder, or one file of a folder. */
const rooms: Readonly<Record<string, readonly string[]>> = {
  catalogue: [],
  core: [],
  schema: ['core'],
  manifest: ['core', 'schema', 'setup'],
  setup: ['core'],
  app: ['core', 'schema', 'manifest', 'setup', 'reports'],
  files: ['core', 'schema', 'app', 'reports'],
  http: ['core'],
  controller: ['core', 'app', 'files', 'reports'],
  store: ['core', 'app', 'files', 'lab', 'reports'],
  remote: ['core', 'app', 'files', 'lab', 'api'],
  backends: ['core', 'app', 'files', 'http', 'remote', 'lab', 'reports'],
  harbor: ['core', 'app', 'files', 'http'],
  oidc: ['core', 'app', 'http'],
  lab: ['core', 'schema', 'app'],
  sheet: ['core', 'app', 'http', 'lab'],
  reports: ['core'],
  google: ['core', 'app', 'http', 'reports'],
  notify: ['core', 'app', 'files', 'http'],
  api: ['core', 'app', 'lab'],
  server: ['core', 'app', 'lab', 'api'],
  'http-client': ['core', 'app', 'lab', 'http', 'api'],
  dashboard: ['core', 'schema', 'manifest', 'app', 'reports', 'lab', 'api', 'version.ts'],
  cli: ['core', 'schema', 'manifest', 'app', 'files', 'lab', 'reports'],
  emulator: ['core/model/time.ts'],
};

/** Files next to the folders. The first two may import everything, and no folder may import them. */
const entries: Readonly<Record<string, readonly string[]>> = {
  'main.ts': [...Object.keys(rooms), 'wiring', 'version.ts'],
  wiring: [...Object.keys(rooms), 'version.ts'],
  'version.ts': [],
};

/** Pure folders take the time and random numbers as values. */
const pureRooms = ['catalogue', 'core', 'schema', 'manifest', 'setup', 'reports'];
/**
 * Node modules that only compute. Of node:crypto only the hash is pure; its random functions are among the globals
 * below.
 */
const pureModules = ['node:path', 'node:path/posix', 'node:crypto'];
/** Use cases read and write files, and start programs, through ports: a server has no files of its client. */
const modulesOutsideApp = /^node:(?:fs|child_process|os|net|http|https)(?:\/|$)/;
const impureGlobals = [
  'console',
  'crypto',
  'fetch',
  'randomBytes',
  'randomInt',
  'randomUUID',
  'performance',
  'setImmediate',
  'setInterval',
  'setTimeout',
];

/** The only file that may use `process`. */
const processFiles = ['main.ts'];

/** The rooms that decide what kinds of capacity are; the others ask `capacityTraits`, `capacityPhrases` or `hostNamesOf`. */
const roomsOfKinds = ['core', 'manifest', 'backends', 'emulator'];
/** Outside of them, the folders and files that read fields which only a TPU has. */
const readersOfTpus = [
  'lab',
  'cli/tpu',
  ...[
    'new-job',
    'confirmation',
    'grants',
    'record-orphan',
    'orphans',
    'activity',
    'storage',
    'tpus',
    'zones',
    'typical-wait',
  ].map((name) => `app/${name}.ts`),
  ...[
    'quota',
    'why-quota',
    'why-waiting',
    'views',
    'json',
    'job-facts',
    'ports',
    'billing',
    'notifications/notice',
  ].map((name) => `app/${name}.ts`),
  ...['manifest-file', 'commands/create'].map((name) => `cli/${name}.ts`),
  ...['lab', 'migrations', 'jobs'].map((name) => `store/${name}.ts`),
  ...['billing', 'usage', 'checkpoints'].map((name) => `reports/${name}.ts`),
  'controller/observe.ts',
  'wiring/client.ts',
];

/** Names that say nothing about the content. */
const drawers = ['utils', 'util', 'helpers', 'helper', 'common', 'misc'];

interface Import {
  readonly specifier: string;
  /** True for imports that do not exist at run time. */
  readonly isType: boolean;
}

interface Source {
  /** The path below src/. */
  readonly path: string;
  /** The folder, or the name of a file next to the folders. */
  readonly room: string;
  readonly imports: readonly Import[];
  readonly touches: ReadonlySet<string>;
}

/** A node of the syntax tree. The parser's own types have one type per kind of node; this test treats all alike. */
type Syntax = { readonly type: string } & Readonly<Record<string, unknown>>;

/** Reads all imports of a file, in every form, and its uses of restricted names. */
function readSource(path: string, text: string): Source {
  const parsed = parseSync(path, text);
  assert.equal(parsed.errors.length, 0, `src/${path} cannot be parsed: ${parsed.errors[0]?.message}`);
  const imports: Import[] = [];
  const touches = new Set<string>();

  const visit = (node: Syntax): void => {
    const from = node['source'];
    if (isSyntax(from) && typeof from['value'] === 'string') {
      imports.push({ specifier: from['value'], isType: isOfTypes(node) });
    }
    if (node.type === 'Identifier') touches.add(String(node['name']));
    if (node.type === 'MemberExpression') {
      const [object, property] = [node['object'], node['property']] as [Syntax, Syntax];
      touches.add(`${String(object['name'])}.${String(property['name'])}`);
      if (object['name'] === 'globalThis') touches.add(String(property['name'] ?? property['value']));
    }
    if (node.type === 'NewExpression' && (node['arguments'] as unknown[]).length === 0) {
      touches.add(`new ${String((node['callee'] as Syntax)['name'])}()`);
    }
    for (const [key, child] of Object.entries(node)) {
      // `job.process` and `{ process: 1 }` are properties; `job[process]` uses the global.
      const isPropertyName = (key === 'property' || key === 'key') && node['computed'] !== true;
      for (const one of Array.isArray(child) ? (child as unknown[]) : [child]) {
        if (isSyntax(one) && !(isPropertyName && one.type === 'Identifier')) visit(one);
      }
    }
  };
  visit(parsed.program as unknown as Syntax);
  return { path, room: path.split('/')[0] ?? path, imports, touches };
}

/** True for an import or export of types only. */
function isOfTypes(node: Syntax): boolean {
  if (node.type === 'TSImportType' || node['importKind'] === 'type' || node['exportKind'] === 'type') return true;
  const names = (node['specifiers'] ?? []) as Syntax[];
  return names.length > 0 && names.every((name) => name['importKind'] === 'type' || name['exportKind'] === 'type');
}

function isSyntax(value: unknown): value is Syntax {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

/** The violations of one file, as sentences. */
function problemsOf({ path, room, imports, touches }: Source): string[] {
  const allowed = rooms[room] ?? entries[room];
  if (allowed === undefined) {
    return [
      `src/${path} is in no folder of the table; add src/${room} to test/architecture.test.ts and .oxlintrc.json.`,
    ];
  }

  const problems: string[] = [];
  for (const { specifier } of imports) {
    if (specifier === 'node:process' || specifier === 'process') {
      if (!processFiles.includes(path)) problems.push(`src/${path} imports ${specifier}; only src/main.ts uses it.`);
    } else if (specifier.startsWith('.')) {
      const target = relative('.', join(dirname(path), specifier));
      const targetRoom = target.split('/')[0] ?? target;
      const isAllowed =
        targetRoom === room || targetRoom === 'catalogue' || allowed.includes(targetRoom) || allowed.includes(target);
      if (!isAllowed) problems.push(`src/${path} imports src/${target}, but ${room} may import ${listOf(allowed)}.`);
    } else if (pureRooms.includes(room) && specifier.startsWith('node:') && !pureModules.includes(specifier)) {
      problems.push(`src/${path} imports ${specifier}, but ${room} is pure: it takes values and returns values.`);
    } else if (room === 'app' && modulesOutsideApp.test(specifier)) {
      problems.push(`src/${path} imports ${specifier}, but app works through ports: implement one in files.`);
    } else if (room === 'core' || (room === 'catalogue' && specifier !== 'node:crypto')) {
      problems.push(`src/${path} imports ${specifier}, but ${room} imports no package.`);
    }
  }

  if (touches.has('process') && !processFiles.includes(path)) {
    problems.push(
      `src/${path} uses the name \`process\`. Only src/main.ts uses it; pass the needed value as a ` +
        'parameter, and give a process of another program another name.',
    );
  }
  if (pureRooms.includes(room)) {
    const impure = [...impureGlobals, 'Date.now', 'new Date()', 'Math.random'].filter((name) => touches.has(name));
    for (const name of impure)
      problems.push(`src/${path} uses ${name}, but ${room} is pure: pass the value as a parameter.`);
  }
  for (const segment of path.split('/')) {
    if (drawers.includes(segment.replace(/\.tsx?$/, ''))) {
      problems.push(`src/${path}: \`${segment}\` says nothing about its content; name it by its subject.`);
    }
  }
  return problems;
}

function listOf(allowed: readonly string[]): string {
  return allowed.length === 0 ? 'only itself and catalogue' : `only itself, catalogue and ${allowed.join(', ')}`;
}

const src = join(root, 'src');

test('every import in src follows the allowed arrows', () => {
  const files = globSync('**/*.{ts,tsx}', { cwd: src });
  assert.ok(files.length > 0);
  const problems = files.flatMap((path) => problemsOf(readSource(path, readFileSync(join(src, path), 'utf8'))));
  assert.equal(problems.length, 0, `\n${problems.join('\n')}`);
});

test('files import each other in a circle only for types, and only within one folder', () => {
  const files = globSync('{src,sim,test,tools,bench}/**/*.{ts,tsx}', { cwd: root });
  const graph = new Map(
    files.map((path) => {
      const { imports } = readSource(path, readFileSync(join(root, path), 'utf8'));
      return [path, imports.map(({ specifier, isType }) => ({ to: join(dirname(path), specifier), isType }))];
    }),
  );
  const targets = (path: string, withTypes: boolean): string[] =>
    (graph.get(path) ?? []).filter(({ to, isType }) => graph.has(to) && (withTypes || !isType)).map(({ to }) => to);
  const ofValues = circlesOf(files, (path) => targets(path, false));
  const acrossFolders = circlesOf(files, (path) => targets(path, true)).filter(
    (circle) => new Set(circle.map((path) => dirname(path))).size > 1,
  );
  assert.deepEqual([...ofValues, ...acrossFolders], []);
});

/** Sets of files that import each other, directly or indirectly, with sorted names. */
function circlesOf(files: readonly string[], targets: (path: string) => readonly string[]): string[][] {
  const reach = new Map(
    files.map((path) => {
      const seen = new Set<string>();
      const rest = [...targets(path)];
      for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
        if (seen.has(next)) continue;
        seen.add(next);
        rest.push(...targets(next));
      }
      return [path, seen];
    }),
  );
  const left = new Set(files.filter((path) => reach.get(path)?.has(path)));
  const circles: string[][] = [];
  for (const first of [...left].toSorted()) {
    if (!left.has(first)) continue;
    const circle = [...left].filter((path) => reach.get(first)?.has(path) && reach.get(path)?.has(first)).toSorted();
    for (const path of circle) left.delete(path);
    circles.push(circle);
  }
  return circles;
}

test('only the rooms of the kinds test a kind of capacity, and the files of TPUs their own', () => {
  const isIn = (path: string, folders: readonly string[]): boolean =>
    folders.some((folder) => path === folder || path.startsWith(`${folder}/`));
  const asks = (path: string, kind: string): boolean => {
    const text = readFileSync(join(root, 'src', path), 'utf8');
    return new RegExp(
      `\\b(capacity|spec|first|one|chosen)\\??\\.kind [!=]== '${kind}'|(backend|source) [!=]== '${kind}'`,
    ).test(text);
  };
  const files = globSync('**/*.ts', { cwd: join(root, 'src') }).filter((path) => !isIn(path, roomsOfKinds));
  assert.deepEqual(
    files.filter((path) => asks(path, 'hosts') || (asks(path, 'tpu') && !isIn(path, readersOfTpus))),
    [],
  );
  assert.deepEqual(
    readersOfTpus.filter((folder) => !files.some((path) => isIn(path, [folder]) && asks(path, 'tpu'))),
    [],
    'these ask no more',
  );
});

suite('the import reader sees', () => {
  const seen = (path: string, text: string) => problemsOf(readSource(path, text));

  for (const [what, text] of [
    ['a static import', "import { x } from '../store/rows.ts'; x();"],
    ['a type import', "import type { X } from '../store/rows.ts'; export type Y = X;"],
    ['a type in place', "export type Y = import('../store/rows.ts').X;"],
    ['a dynamic import', "export const load = () => import('../store/rows.ts');"],
    ['an export from', "export * from '../store/rows.ts';"],
    ['an export of one name from a file', "export { x } from '../store/rows.ts';"],
    ['an import for its side effect', "import '../store/rows.ts';"],
  ] as const) {
    test(`${what} that points back`, () => {
      assert.deepEqual(seen('cli/list.ts', text), [
        'src/cli/list.ts imports src/store/rows.ts, but cli may import only itself, catalogue and core, schema, manifest, app, files, lab, reports.',
      ]);
    });
  }

  test('an allowed arrow, from any depth', () => {
    assert.deepEqual(seen('cli/render/table.ts', "import { row } from '../../app/views.ts'; row();"), []);
    assert.deepEqual(seen('cli/render/table.ts', "import { cell } from '../cell.ts'; cell();"), []);
  });

  test('that one file of a folder is not the folder', () => {
    assert.deepEqual(seen('emulator/clock.ts', "import type { Instant } from '../core/model/time.ts';"), []);
    assert.equal(seen('emulator/clock.ts', "import type { Job } from '../core/model/job.ts';").length, 1);
  });

  test('that no folder may import the wiring', () => {
    assert.equal(seen('controller/loop.ts', "import { wire } from '../wiring/services.ts'; wire();").length, 1);
  });

  test('a folder that is not in the table', () => {
    assert.equal(seen('cellar/wine.ts', 'export const red = 1;').length, 1);
  });

  test('each use of the global process, and no other use of the name', () => {
    assert.equal(seen('app/a.ts', 'export const pid = process.pid;').length, 1);
    assert.equal(seen('app/a.ts', 'export const pid = globalThis.process.pid;').length, 1);
    assert.equal(seen('app/a.ts', "import { pid } from 'node:process'; pid();").length, 1);
    assert.deepEqual(seen('main.ts', 'export const pid = process.pid;'), []);
    assert.deepEqual(seen('app/a.ts', 'export const f = (x: { process: number }) => ({ process: x.process });'), []);
    assert.deepEqual(seen('app/a.ts', "// process.pid\nexport const f = 'process.pid';"), []);
  });

  test('a clock, a random number or the outside in a pure folder', () => {
    assert.equal(seen('core/a.ts', 'export const now = Date.now();').length, 1);
    assert.equal(seen('core/a.ts', 'export const now = new Date();').length, 1);
    assert.deepEqual(seen('core/a.ts', 'export const at = (ms: number) => new Date(ms).toISOString();'), []);
    assert.equal(seen('core/a.ts', 'export const r = Math.random();').length, 1);
    assert.equal(seen('manifest/a.ts', "import { readFileSync } from 'node:fs'; readFileSync('x');").length, 1);
    assert.equal(seen('core/a.ts', "import { z } from 'zod'; z();").length, 1);
    assert.deepEqual(seen('manifest/a.ts', "import { z } from 'zod'; z();"), []);
  });

  test('files and programs in the use cases', () => {
    assert.equal(seen('app/a.ts', "import { rm } from 'node:fs/promises'; rm('x');").length, 1);
    assert.equal(seen('app/a.ts', "export const load = () => import('node:child_process');").length, 1);
    assert.deepEqual(seen('app/a.ts', "import { join } from 'node:path'; join('x');"), []);
  });

  test('a file name without content', () => {
    assert.equal(seen('app/utils.ts', 'export const x = 1;').length, 1);
    assert.equal(seen('backends/helpers/x.ts', 'export const x = 1;').length, 1);
  });
});

suite('the linter has the same table', () => {
  interface Pattern {
    readonly regex?: string;
    readonly group?: readonly string[];
  }
  const { overrides } = JSON.parse(readFileSync(join(root, '.oxlintrc.json'), 'utf8')) as {
    overrides: { files: string[]; rules: { 'no-restricted-imports'?: [string, { patterns: Pattern[] }] } }[];
  };

  const forbids = ({ regex, group = [] }: Pattern, specifier: string): boolean => {
    if (regex !== undefined) return new RegExp(regex).test(specifier);
    // As in .gitignore, the last matching pattern decides.
    const path = specifier.replace(/^(\.\.\/)+/, 'src/');
    const last = group.findLast((glob) => matchesGlob(path, glob.replace(/^!/, '')));
    return last !== undefined && !last.startsWith('!');
  };

  for (const [room, allowed] of Object.entries(rooms)) {
    test(`for ${room}`, () => {
      const rule = overrides.find(
        ({ files, rules }) => files.includes(`src/${room}/**`) && rules['no-restricted-imports'],
      );
      const patterns = rule?.rules['no-restricted-imports']?.[1].patterns;
      assert.ok(patterns, `.oxlintrc.json has no no-restricted-imports for src/${room}/**.`);

      const files = [...Object.keys(rooms), 'wiring'].map((name) => `${name}/x.ts`);
      const targets = [...files, 'core/model/time.ts', 'main.ts', 'version.ts'];
      for (const target of targets) {
        const other = target.split('/')[0] ?? target;
        const wanted = other !== room && other !== 'catalogue' && !allowed.includes(other) && !allowed.includes(target);
        for (const specifier of other === room ? [`./${target}`] : [`../${target}`, `../../${target}`]) {
          // The emulator has a folder of that name itself.
          if (room === 'emulator' && specifier === '../http/x.ts') continue;
          const actual = patterns.some((pattern) => forbids(pattern, specifier));
          assert.equal(
            actual,
            wanted,
            `.oxlintrc.json ${actual ? 'forbids' : 'allows'} ${room} to import ${specifier}.`,
          );
        }
      }
    });
  }
});

test('no folder of src has the name of a build output in dist', () => {
  assert.ok(!existsSync(join(src, 'bundle')), 'src/bundle would collide with dist/bundle when tsc writes to dist.');
});
