/** Every manifest in a document, or piece of one, is accepted by the parser. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { parse } from 'yaml';
import { disk } from '../../src/cli/disk.ts';
import type { FileReader } from '../../src/manifest/files.ts';
import { parseManifest } from '../../src/manifest/parse.ts';
import { formatProblems } from '../../src/schema/problems.ts';
import { parseFaultSchedule } from '../../src/emulator/world/fault-schedule.ts';
import { secretNamesOf, type JobSpec } from '../../src/core/model/spec.ts';
import { clientFor } from '../../src/app/store-client.ts';
import { upload } from '../../src/app/upload.ts';
import { freeze } from '../../src/remote/workdir/freeze.ts';
import { openStore } from '../../src/store/store.ts';
import { aMember } from '../support/builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { createConfirmed } from '../support/create-confirmed.ts';
import { openWorld } from '../support/world.ts';
import { root } from '../support/root.ts';
import { readDocuments } from './documents.ts';

/** Every file that a manifest names exists, in the manifest's own folder. */
const everythingThere: FileReader = {
  inspect: (path) =>
    path === '/somewhere' ? { kind: 'folder', entries: [] } : { kind: 'file', bytes: 1, isExecutable: false },
  read: () => ({ bytes: new TextEncoder().encode('x') }),
};

/** The examples' own files as they are, and every file of a user that they name. */
const examplesThere: FileReader = {
  inspect: (path) => (path.startsWith(`${root}/`) ? disk.inspect(path) : everythingThere.inspect(path)),
  read: (path, most) => (path.startsWith(`${root}/`) ? disk.read(path, most) : everythingThere.read(path, most)),
};

const user = {
  env: { USER: 'ada', WANDB_API_KEY: 'key', MY_HF_TOKEN: 'token' },
  project: null,
  purpose: 'create',
} as const;

/** The output of `validate`: problems, or warnings if there are no problems. */
function findingsIn(
  text: string,
  file = '/somewhere/train.yaml',
  reader: FileReader = everythingThere,
): { readonly problems: readonly string[]; readonly warnings: readonly string[] } {
  const result = parseManifest({ ...user, text, file, home: '/home/ada', files: reader });
  const problems = 'problems' in result ? result.problems : [];
  return { problems: formatProblems('train.yaml', problems), warnings: formatProblems('train.yaml', result.warnings) };
}

const problemsIn = (text: string): readonly string[] => findingsIn(text).problems;

/** A piece of a manifest may lack keys, so warnings about missing keys are ignored. The keys that it has must have an effect. */
const unwanted = /is never asked|never applies|has no effect|is not used/;

/** A piece of a manifest with what it needs to be whole. */
function whole(piece: string): string {
  const sections = Object.keys((parse(piece) ?? {}) as object);
  const capacity = ['tpu', 'hosts', 'local', 'kubernetes'].some((one) => sections.includes(one))
    ? ''
    : 'tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b}\n';
  return `${capacity}${sections.includes('command') || sections.includes('kubernetes') ? '' : 'command: {run: ls}\n'}${piece}`;
}

/** The manifests in documents. */
const shown = readDocuments()
  .flatMap(({ blocks: all }) => all.filter(({ language }) => language === 'yaml'))
  .filter(({ text }) => !isRehearsal(text));

const configs = join(root, 'configs');
const examples = readdirSync(configs, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.yaml'));

test('every manifest in a document is accepted', () => {
  assert.ok(shown.length > 15, 'documents show manifests');
  for (const { document, line, text } of shown) {
    const { problems, warnings } = findingsIn(whole(text));
    assert.deepEqual(problems, [], `${document}:${line}`);
    assert.deepEqual(
      warnings.filter((warning) => unwanted.test(warning)),
      [],
      `${document}:${line}`,
    );
  }
});

test('every example is accepted, and nothing in it is without effect', () => {
  assert.ok(examples.length > 4);
  for (const name of examples) {
    const path = join(configs, name);
    const { problems, warnings } = findingsIn(readFileSync(path, 'utf8'), path, examplesThere);
    assert.deepEqual(problems, [], name);
    assert.deepEqual(
      warnings.filter((warning) => unwanted.test(warning)),
      [],
      name,
    );
  }
});

test('no stored spec of a manifest names a file or folder of the machine that created the job', async (t) => {
  const world = openWorld(t);
  const [userHome, project] = [join(world.folder, 'ada'), join(world.folder, 'ada/project')];
  mkdirSync(project, { recursive: true });
  writeFileSync(join(project, 'train.py'), '');
  const store = openStore({ file: join(world.home, 'state.db') });
  world.atEnd(() => store.close());
  const pools = async () => ['localhost', 'gpu1', 'gpu2'].map((name) => ({ name, ssh: null, slots: 1, gpus: null }));
  const client = clientFor(async () => aMember('ada'), clientParts(world.home, store, { now: Date.now, pools }));
  const sources = [
    ...shown.map(({ document, line, text }) => ({ name: `${document}:${line}`, file: join(project, 'x.yaml'), text })),
    ...examples.map((name) => ({ name, file: join(configs, name), text: readFileSync(join(configs, name), 'utf8') })),
    { name: 'job.workdir', file: join(project, 'x.yaml'), text: 'job: {workdir: .}\ncommand: {workdir: src}\n' },
  ];
  const created = new Map<string, string>();
  for (const { name, file, text } of sources) {
    const read = parseManifest({ ...user, text: whole(text), file, home: userHome, files: examplesThere });
    if (!('spec' in read)) continue;
    const { spec, uploads, secretSources: secrets } = read;
    await upload(client, uploads.contents);
    for (const name of secretNamesOf(spec, 'named')) await client.setSecret(name, Buffer.from('value'));
    const from = uploads.workdir;
    if (from !== null) mkdirSync(from, { recursive: true });
    const copied = { maxBytes: 1_000_000, excluded: world.home, env: world.env, client, indexes: null, at: 1 };
    const { id } = await createConfirmed(client, {
      spec,
      manifest: text,
      secrets: Object.fromEntries(secrets.map(({ secret }) => [secret, 'dmFsdWU='])),
      ...(from !== null && { workdir: await freeze({ from, ...copied }) }),
    });
    created.set(id, name);
  }
  const db = new DatabaseSync(join(world.home, 'state.db'), { readOnly: true });
  t.after(() => db.close());
  const rows = db.prepare('select number, spec, outline from job join job_text on job = number').all();
  assert.ok(rows.length > 30);
  for (const { number, spec: stored, outline } of rows) {
    for (const text of [String(stored), String(outline)]) {
      const { command, ...rest } = JSON.parse(text) as JobSpec;
      // The program runs on the controller's machine and starts in this folder there, as in the manifest of a batch
      // system: see docs/decisions/blobs.md. Only job.workdir makes a copy.
      const isHere = rest.capacity.kind === 'hosts' || command.runsOn === 'controller';
      const { workdir: _start, checkpointDir: _kept, checkpointStorage: _storage, ...others } = command;
      const found = new RegExp(`.{0,60}(?:${root}|${world.folder}).{0,60}`).exec(
        JSON.stringify([rest, isHere ? others : command]),
      );
      assert.equal(found, null, `${created.get(String(number).padStart(6, '0'))}`);
    }
  }
});

/** A manifest is a map of sections; a list is a fault schedule of the TPU emulator. */
function isRehearsal(text: string): boolean {
  return Array.isArray(parse(text));
}

test('every fault schedule in a document is valid', () => {
  const blocks = readDocuments().flatMap(({ blocks: all }) => all.filter(({ language }) => language === 'yaml'));
  const rehearsals = blocks.filter(({ text }) => isRehearsal(text));
  assert.ok(rehearsals.length > 0, 'documents show fault schedules');
  for (const { document, line, text } of rehearsals)
    assert.ok(parseFaultSchedule(text, `${document}:${line}`).length > 0);
});

test('one with a mistake would not be', () => {
  assert.notDeepEqual(problemsIn(whole('job: {nmae: a}\n')), []);
  assert.notDeepEqual(problemsIn(whole('recovery: reaply\n')), []);
});
