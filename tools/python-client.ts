/**
 * python/jobman/_api.py: the types and the operations of docs/openapi.json for Python 3.9, with its standard library.
 * `npm run reference` writes it.
 */
import { apiRoutes, type Route } from '../src/api/routes.ts';
import type { DocumentOperation, OpenApiDocument, Schema } from './openapi-document.ts';

const head = `"""The types and operations of the HTTP API of jobman. Generated from docs/openapi.json: \`npm run reference\`."""

# mypy: warn_return_any=False

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Literal, Optional, Sequence, TypedDict, Union

from jobman._http import Blob, Connection, LogPart, Rows
`;

/** The text of the module. */
export function pythonClient(text: string): string {
  const { info, paths, components } = JSON.parse(text) as OpenApiDocument;
  const types: string[] = [];
  for (const [name, schema] of Object.entries(components.schemas)) declare(name, schema, types);
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  const methods = operations.map((operation) => method(operation, types));
  return `${head}\n${types.join('\n')}\n\nclass Operations(Connection):\n    """Every operation of the API."""\n\n    _version = ${JSON.stringify(info.version)}\n\n${methods.join('\n')}`;
}

// ------------------------------------------------------------------------------------------ types

const plainTypes: Readonly<Record<string, string>> = {
  string: 'str',
  number: 'float',
  integer: 'int',
  boolean: 'bool',
  null: 'None',
  array: 'List[Any]',
  object: 'Dict[str, Any]',
};

/** A type is declared after the parts of it that have no name in the document. */
function declare(name: string, schema: Schema, types: string[]): void {
  const { properties, required = [] } = schema;
  if (properties === undefined || Object.keys(properties).length === 0) {
    types.push(`${comment(schema)}${name} = ${typeOf(schema, name, types)}\n`);
    return;
  }
  const fields = (isRequired: boolean): string =>
    Object.entries(properties)
      .filter(([field]) => required.includes(field) === isRequired)
      .map(
        ([field, one]) =>
          `${comment(one, '    ')}    ${JSON.stringify(field)}: ${JSON.stringify(typeOf(one, `${name}_${field}`, types).replaceAll("'", ''))},\n`,
      )
      .join('');
  const [needed, optional] = [fields(true), fields(false)];
  const both = needed !== '' && optional !== '';
  const about = comment(schema);
  const required_ = `TypedDict(${JSON.stringify(both ? `_${name}` : name)}, {\n${needed}})`;
  const optional_ = `TypedDict(${JSON.stringify(both ? `_${name}_optional` : name)}, {\n${optional}}, total=False)`;
  if (!both) types.push(`${about}${name} = ${needed === '' ? optional_ : required_}\n`);
  else
    types.push(
      `_${name} = ${required_}\n_${name}_optional = ${optional_}\n\n\n${about}class ${name}(_${name}, _${name}_optional):\n    pass\n\n`,
    );
}

/** An expression in which names of types are quoted, because they may be declared later. */
function typeOf(schema: Schema, name: string, types: string[]): string {
  const { $ref, type, const: only, enum: values, anyOf, items, properties, additionalProperties } = schema;
  if ($ref !== undefined) return `'${$ref.split('/').at(-1) ?? ''}'`;
  if (only !== undefined) return only === null ? 'None' : `Literal[${literal(only)}]`;
  if (values !== undefined) return union([`Literal[${values.map(literal).join(', ')}]`]);
  if (anyOf !== undefined) return union(anyOf.map((one, at) => typeOf(one, `${name}_${at + 1}`, types)));
  if (Array.isArray(type)) return union(type.map((one) => typeOf({ ...schema, type: one as string }, name, types)));
  if (type === 'array' && items !== undefined && items !== false)
    return `List[${typeOf(items, `${name}_item`, types)}]`;
  if (properties !== undefined && Object.keys(properties).length > 0) {
    declare(name, schema, types);
    return `'${name}'`;
  }
  if (type === 'object' && typeof additionalProperties === 'object')
    return `Dict[str, ${typeOf(additionalProperties, `${name}_value`, types)}]`;
  return plainTypes[type as string] ?? 'Any';
}

function union(types: readonly string[]): string {
  const all = [...new Set(types)];
  return all.length === 1 ? (all[0] ?? 'Any') : `Union[${all.join(', ')}]`;
}

function literal(value: string | number | boolean | null): string {
  return value === null ? 'None' : typeof value === 'boolean' ? (value ? 'True' : 'False') : JSON.stringify(value);
}

function comment({ description }: Schema, indent = ''): string {
  return description === undefined ? '' : `${indent}# ${description.replaceAll('\n', ' ')}\n`;
}

// ------------------------------------------------------------------------------------------ operations

const keywords: readonly string[] = ['from', 'in', 'is', 'not', 'class', 'def', 'global', 'lambda', 'pass', 'with'];

function pythonName(name: string): string {
  const snake = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return keywords.includes(snake) ? `${snake}_` : snake;
}

/** In the class a method named \`list\` hides the type of that name, but annotations name \`List\`. */
function method(operation: DocumentOperation, types: string[]): string {
  const { operationId, requestBody, description } = operation;
  // `cursor` and the fields of requests do the same as the headers.
  const parameters = (operation.parameters ?? []).filter((one) => one.in !== 'header');
  const [, route] = apiRoutes.find(([name]) => name === operationId) ?? [];
  if (route === undefined) throw new Error(`${operationId} has no route`);
  // `lab.users` is `lab_users`.
  const id = operationId.replace(/\.(.)/, (_, letter: string) => letter.toUpperCase());
  const typeName = `${id.replace(/^./, (letter) => letter.toUpperCase())}Answer`;
  const typed = (schema: Schema, name: string): string =>
    typeOf(schema, `${typeName}_${name}`, types).replaceAll("'", '');
  const positional: string[] = [];
  const named: string[] = [];
  const given: string[] = [`'${route.method}'`, pathOf(route)];
  const add = (name: string, type: string, isRequired: boolean): void => {
    if (isRequired) positional.push(`${pythonName(name)}: ${type}`);
    else named.push(`${pythonName(name)}: Optional[${type}] = None`);
  };
  for (const { name, required = false, schema } of parameters) {
    const isList = schema.type === 'array';
    const type = typed(schema, name);
    add(name, isList ? type.replace(/^List/, 'Sequence') : type, required);
  }
  const query = parameters.filter((one) => one.in === 'query').map(({ name }) => `'${name}': ${pythonName(name)}`);
  if (query.length > 0) given.push(`query={${query.join(', ')}}`);
  const body = requestBody?.content['application/json']?.schema;
  const carrier = route.arguments.find(([kind]) => ['body', 'bytes', 'blobs'].includes(kind));
  if (carrier !== undefined) {
    const [kind, name] = carrier;
    const type = kind === 'bytes' ? 'bytes' : kind === 'blobs' ? 'Sequence[Blob]' : typed(body ?? {}, name);
    add(name, type, requestBody?.required === true);
    given.push(`${kind === 'body' ? 'json' : kind}=${pythonName(name)}`);
  } else if (body !== undefined) {
    const members = Object.entries(body.properties ?? {});
    for (const [name, schema] of members) add(name, typed(schema, name), body.required?.includes(name) === true);
    given.push(`json={${members.map(([name]) => `'${name}': ${pythonName(name)}`).join(', ')}}`);
  }
  const json = operation.responses['200']?.content?.['application/json']?.schema;
  const value = route.answer === 'rows' ? json?.properties?.['rows'] : json;
  const event = operation.responses['200']?.content?.['text/event-stream']?.schema;
  const answer = {
    json: value === undefined ? 'None' : typed(value, 'value'),
    rows: value === undefined ? 'None' : typed(value, 'value').replace(/^List/, 'Rows'),
    bytes: 'bytes',
    log: 'LogPart',
    chunks: 'Iterator[bytes]',
    events: `Iterator[${event === undefined ? 'Any' : typed(event, 'value')}]`,
  }[route.answer];
  const all = ['self', ...positional, ...(named.length === 0 ? [] : ['*', ...named])];
  const doc =
    description === undefined ? '' : `        """${description.replaceAll('\\', '\\\\').replaceAll('"', "'")}"""\n`;
  return `    def ${pythonName(id)}(\n        ${all.join(',\n        ')},\n    ) -> ${answer}:\n${doc}        return self._${route.answer}(${given.join(', ')})\n`;
}

/** An f-string in which each argument is a segment. */
function pathOf({ path }: Route): string {
  if (!path.includes('{')) return `'${path}'`;
  return `f'${path.replaceAll(/\{(\w+)\}/g, (_, name: string) => `{self._segment(${pythonName(name)})}`)}'`;
}
