/** Values that a JSON schema allows. */
import fc from 'fast-check';

export interface JsonSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  readonly items?: JsonSchema | false;
  readonly prefixItems?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonSchema;
}

export type Definitions = Readonly<Record<string, JsonSchema>>;

/** `text` is for every string without an enumeration or a pattern. */
export function arbitraryOf(schema: JsonSchema, $defs: Definitions, text: fc.Arbitrary<string>): fc.Arbitrary<unknown> {
  const of = (one: JsonSchema): fc.Arbitrary<unknown> => arbitraryOf(one, $defs, text);
  const { $ref, type, anyOf, items, prefixItems, properties = {}, required = [], additionalProperties } = schema;
  if ($ref !== undefined) return of($defs[$ref.replace('#/$defs/', '')] ?? {});
  if ('const' in schema) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (anyOf !== undefined) return fc.oneof(...anyOf.map(of));
  if (typeof type === 'object') return fc.oneof(...type.map((one) => of({ ...schema, type: one })));
  switch (type) {
    case 'string':
      return schema.pattern === undefined ? text : fc.stringMatching(new RegExp(schema.pattern));
    case 'number':
      return fc.oneof(
        fc.integer({ min: -1, max: 9 }),
        fc.double({ noDefaultInfinity: true, noNaN: true }).map((value) => value + 0),
      );
    case 'integer':
      return fc
        .oneof(fc.integer({ min: 0, max: 2e12 }), fc.maxSafeInteger())
        .filter((value) => value >= (schema.minimum ?? value) && value <= (schema.maximum ?? value));
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return prefixItems === undefined
        ? fc.array(of(items === false || items === undefined ? {} : items), { maxLength: 3 })
        : fc.tuple(...prefixItems.map(of));
    case 'object': {
      const fields = Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, of(one)]));
      const known = fc.record(fields, { requiredKeys: [...required], noNullPrototype: true });
      if (typeof additionalProperties !== 'object') return known;
      const others = fc.dictionary(fc.stringMatching(/^[A-Z_]{1,9}$/), of(additionalProperties), {
        maxKeys: 2,
        noNullPrototype: true,
      });
      return fc.tuple(others, known).map(([more, own]) => ({ ...more, ...(own as object) }));
    }
    default:
      return fc.constantFrom(null, 'x', 1, {});
  }
}
