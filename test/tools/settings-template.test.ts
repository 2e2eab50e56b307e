/** The template of settings in dist/ is renewed by a build, and never once somebody has edited it. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { publishSettingsTemplate } from '../../tools/settings-template.ts';
import { openWorld } from '../support/world.ts';

function templatePaths(t: TestContext) {
  const { folder } = openWorld(t);
  const [source, file, checksumFile] = ['source.json', 'settings.json', 'checksum'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  writeFileSync(source, '{}');
  return { folder, source, file, checksumFile, content: () => readFileSync(file, 'utf8') };
}

test('it is written, and renewed with the source', (t) => {
  const { folder, content, ...all } = templatePaths(t);
  assert.equal(publishSettingsTemplate(all), true);
  writeFileSync(all.source, '{ "job": {} }');
  assert.equal(publishSettingsTemplate(all), true);
  assert.equal(content(), '{ "job": {} }');
  assert.ok(readdirSync(folder).every((name) => !name.endsWith('.new')));
});

test('one that was edited stays, however often the source changes', (t) => {
  const { content, ...all } = templatePaths(t);
  publishSettingsTemplate(all);
  writeFileSync(all.file, '{ "mine": 1 }');
  for (const next of ['{ "a": 1 }', '{ "b": 2 }']) {
    writeFileSync(all.source, next);
    assert.equal(publishSettingsTemplate(all), false);
    assert.equal(content(), '{ "mine": 1 }');
  }
  // Whoever removes it gets the new one.
  rmSync(all.file);
  assert.equal(publishSettingsTemplate(all), true);
  assert.equal(content(), '{ "b": 2 }');
});

test('one whose checksum was lost counts as edited, unless it is the same', (t) => {
  const { content, ...all } = templatePaths(t);
  publishSettingsTemplate(all);
  rmSync(all.checksumFile);
  assert.equal(publishSettingsTemplate(all), true);
  rmSync(all.checksumFile);
  writeFileSync(all.source, '{ "a": 1 }');
  assert.equal(publishSettingsTemplate(all), false);
  assert.equal(content(), '{}');
});
