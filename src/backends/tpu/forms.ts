// Forms: the types that the answers of the Cloud TPU API are read with.

import type { Form } from '../../app/form.ts';

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
