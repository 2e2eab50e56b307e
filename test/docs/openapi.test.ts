/** docs/openapi.json and the schemas of requests are those of Client and the routes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import schemas from '../../src/api/arguments.schema.json' with { type: 'json' };
import { apiRoutes } from '../../src/api/routes.ts';
import { apiFiles } from '../../tools/api-schema.ts';
import { root } from '../support/root.ts';

test('the generated files are up to date', () => {
  for (const [path, text] of Object.entries(apiFiles()))
    assert.equal(readFileSync(join(root, path), 'utf8'), text, `Run \`npm run reference\` and commit ${path}.`);
});

test('the document is one of OpenAPI 3.1, and speaks of statuses instead of classes and exit codes', async () => {
  const text = readFileSync(join(root, 'docs/openapi.json'), 'utf8');
  const { valid, errors } = await new Validator().validate(JSON.parse(text) as Record<string, unknown>);
  assert.ok(valid, JSON.stringify(errors));
  assert.deepEqual(text.match(/[^."]*(?:JobmanError|StoreError|\b[Tt]hrows)\b[^."]*/g) ?? [], []);
});

test('each parameter of a method travels somewhere, and no two operations have the same route', () => {
  const targets = apiRoutes.map(([, { method, path }]) => `${method} ${path.replaceAll(/\{\w+\}/g, '{}')}`);
  assert.equal(new Set(targets).size, targets.length);
  for (const [operation, { path, arguments: carriers }] of apiRoutes) {
    const { properties = {} } = schemas.operations[operation] as { readonly properties?: object };
    assert.deepEqual(
      carriers.map(([, name]) => name),
      Object.keys(properties),
      operation,
    );
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    assert.deepEqual(
      carriers.filter(([carrier]) => carrier === 'path').map(([, name]) => name),
      named,
      operation,
    );
  }
});
