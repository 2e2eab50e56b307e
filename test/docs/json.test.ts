/** The schema of the --json output and its page are those of the types, and `jobman schema` prints parts of it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ErrorOutput } from '../../src/cli/outputs.ts';
import { jobmanProgram } from '../../src/cli/table.ts';
import { table } from '../../src/cli/tpu/table.ts';
import { fieldMeanings } from '../../tools/field-meanings.ts';
import {
  absencePart,
  formatSchema,
  generateJsonPage,
  jsonPage,
  outputSchema,
  schemaFile,
} from '../../tools/json-schema.ts';
import { jobman } from '../cli/support/harness.ts';
import { root } from '../support/root.ts';

const schema = outputSchema();
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

test('the schema and the page are those of src/cli/outputs.ts', () => {
  assert.equal(read(schemaFile), formatSchema(schema), `Run \`npm run reference\` and commit ${schemaFile}.`);
  const page = read(jsonPage);
  assert.equal(page, generateJsonPage(page, schema), `Run \`npm run reference\` and commit ${jsonPage}.`);
});

test('every field of every object has a meaning, and no meaning is left over', () => {
  const page = read(jsonPage);
  assert.deepEqual(
    page.match(/^\|.*\| \|$/gm) ?? [],
    [],
    'Write a doc comment, or an entry in tools/field-meanings.ts.',
  );
  const unused = Object.values(fieldMeanings).filter(
    (text) => !page.includes(text) && !page.includes(text.replace(absencePart, '.')),
  );
  assert.deepEqual(unused, []);
});

test('each output is of a command', () => {
  const names = [
    ...jobmanProgram.commands.flatMap((command) => command.names),
    ...table.flatMap((command) => command.names.map((name) => `tpu ${name}`)),
    'message',
    'error',
  ];
  assert.deepEqual(
    Object.keys(schema.outputs).filter((command) => !names.includes(command)),
    [],
  );
});

test('names of times, durations and money end as docs/json.md says', () => {
  const names = Object.entries(schema.$defs).flatMap(([type, { properties = {} }]) =>
    Object.entries(properties).map(([name, property]) => ({ name: `${type}.${name}`, text: JSON.stringify(property) })),
  );
  const ofType = (pattern: RegExp): readonly string[] =>
    names.filter(({ text }) => pattern.test(text)).map(({ name }) => name);
  for (const name of ofType(/^\{("anyOf":\[\{)?"\$ref":"#\/\$defs\/Instant"/)) assert.match(name, /\.(at|\w+At)$/);
  for (const name of ofType(/^\{("anyOf":\[\{)?"\$ref":"#\/\$defs\/Duration"/)) assert.match(name, /Ms$/);
  for (const name of ofType(/"number"/)) assert.match(name, /Usd$|Amount$|Percent$|\.stepsPerSecond$|\.speed$/);
});

suite('schema of a command', () => {
  test('prints a schema that a validator can use', async () => {
    for (const command of ['list', 'show', 'history', 'controller status', 'tpu check', 'error', 'message']) {
      const { code, out, err } = await jobman(['schema', command]);
      assert.equal(code, 0, err);
      assert.doesNotThrow(() => new Ajv2020({ strict: false }).compile(JSON.parse(out) as object), command);
    }
  });

  test('names a command that it may have meant', async () => {
    const { code, err } = await jobman(['schema', 'lists', '--json']);
    const { error } = JSON.parse(err) as ErrorOutput;
    assert.deepEqual([code, error.code, error.exitCode], [2, 'usage', 2]);
    assert.match(error.message, /Did you mean "list"\?/);
  });
});

suite('an error with --json', () => {
  const errors = (err: string) =>
    err.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as ErrorOutput]));

  test('is one object, also for a mistake in the command line', async () => {
    for (const argv of [['lst'], ['why'], ['show', '42', '--nonsense'], ['create']]) {
      const { code, out, err } = await jobman([...argv, '--json']);
      assert.deepEqual([code, out], [2, ''], err);
      assert.deepEqual(
        errors(err).map(({ error }) => error.code),
        ['usage'],
      );
    }
  });

  test('names its job where a command takes several', async () => {
    const { code, err } = await jobman(['show', '7', '8', '--json']);
    assert.equal(code, 3);
    assert.deepEqual(
      errors(err).map(({ error }) => [error.code, error.job]),
      [
        ['not_found', '000007'],
        ['not_found', '000008'],
      ],
    );
  });
});
