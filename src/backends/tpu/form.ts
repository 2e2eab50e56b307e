// Form: whether an answer of the Cloud TPU API has the types that its fields are read with. A server that is not Google's may answer
// with anything, and a value of another type would end a command, or a controller's look, as a mistake of our own.

/** A JSON type, a list of a form, or an object by its fields; `*` is every field that is not named. Other fields may be anything. */
export type Form = 'string' | 'number' | 'boolean' | readonly [Form] | { readonly [field: string]: Form };

/** True if the value has that form. A field of an object may be missing, except `name`. */
export function fits(value: unknown, form: Form): boolean {
  if (typeof form === 'string') return typeof value === form;
  if (isList(form)) return Array.isArray(value) && value.every((one) => fits(one, form[0]));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  if (form['name'] !== undefined && !Object.hasOwn(value, 'name')) return false;
  return Object.entries(value).every(([field, part]) => {
    const wanted = Object.hasOwn(form, field) ? form[field] : form['*'];
    return wanted === undefined || fits(part, wanted);
  });
}

function isList(form: Exclude<Form, string>): form is readonly [Form] {
  return Array.isArray(form);
}

const texts: Form = { '*': 'string' };
const failure: Form = { code: 'number', message: 'string', status: 'string' };
const node = {
  state: 'string',
  health: 'string',
  createTime: 'string',
  acceleratorType: 'string',
  acceleratorConfig: { type: 'string', topology: 'string' },
  schedulingConfig: { spot: 'boolean', preemptible: 'boolean', reserved: 'boolean' },
  metadata: texts,
  labels: texts,
  queuedResource: 'string',
  networkEndpoints: [{ ipAddress: 'string', accessConfig: { externalIp: 'string' } }],
  networkConfigs: [{}],
} as const satisfies Form;

/** The forms of what src/backends/tpu/api.ts declares. */
export const forms = {
  node: { ...node, name: 'string' },
  queuedResource: {
    name: 'string',
    createTime: 'string',
    spot: {},
    bestEffort: {},
    guaranteed: { reserved: 'boolean' },
    tpu: { nodeSpec: [{ nodeId: 'string', node }] },
    state: { state: 'string', stateInitiator: 'string', failedData: { error: failure } },
  },
  operation: {
    name: 'string',
    done: 'boolean',
    error: failure,
    metadata: { createTime: 'string', target: 'string', verb: 'string' },
  },
  guestAttributes: {
    guestAttributes: [{ queryValue: { items: [{ namespace: 'string', key: 'string', value: 'string' }] } }],
  },
  failure,
} as const satisfies Readonly<Record<string, Form>>;
