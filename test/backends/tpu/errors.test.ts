// Google's own words, as public reports have them (facts 6), and what we take them for.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { classify, type StatusBody } from '../../../src/backends/tpu/call.ts';
import type { CloudErrorKind } from '../../../src/core/job.ts';

const rows: readonly (readonly [CloudErrorKind, StatusBody])[] = [
  // In an operation, where the code is a gRPC number.
  [
    'stockout',
    {
      code: 8,
      message:
        'There is no more capacity in the zone "us-central2-b"; you can try in another zone where Cloud TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions) [EID: 0x1a2b]',
    },
  ],
  [
    'stockout',
    {
      code: 9,
      message: 'Insufficient reserved capacity. Contact customer support to increase your reservation. [EID: 0x1]',
    },
  ],
  [
    'stockout',
    {
      code: 8,
      message: 'Insufficient reserved capacity. Contact customer support to increase your reservation. [EID: 0x1]',
    },
  ],
  ['stockout', { code: 8, message: '' }],
  [
    'quota',
    {
      code: 8,
      message: "Quota 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI' exhausted. Limit 20800 in region us-central2",
    },
  ],
  ['quota', { code: 8, message: 'IN_USE_ADDRESSES limit (8)' }],
  ['internal', { code: 13, message: 'an internal error has occurred' }],
  [
    'internal',
    {
      code: 3,
      message: 'Cloud TPU received a bad request. update is not supported while in state PREEMPTED [EID: 0x1]',
    },
  ],
  [
    'invalid',
    {
      code: 3,
      message: 'FLEX_START provisioning model is not supported for accelerator type "v6e-1" in location "us-east5-b"',
    },
  ],
  [
    'permission',
    {
      code: 7,
      message:
        'User does not have permission to submit requests into this queue for accelerator type v6e-8 in location us-east5-b',
    },
  ],
  ['internal', { code: 9, message: 'the queued resource cannot be deleted in this state' }],
  ['internal', { code: 10, message: 'conflict' }],

  // At once, where it is an HTTP status with a name.
  [
    'quota',
    {
      code: 429,
      status: 'RESOURCE_EXHAUSTED',
      message:
        "Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0 in region us-east5.",
    },
  ],
  [
    'rate_limited',
    {
      code: 429,
      status: 'RESOURCE_EXHAUSTED',
      message:
        "Quota exceeded for quota metric 'CreateNode requests' and limit 'Maximum number of CreateNode requests per minute'",
    },
  ],
  [
    'not_found',
    { code: 404, status: 'NOT_FOUND', message: "Resource 'projects/p/locations/us-central2-b/nodes/x' was not found" },
  ],
  [
    'invalid',
    {
      code: 400,
      status: 'INVALID_ARGUMENT',
      message: 'Cloud TPU received a bad request. The requested zone "asia-northeast1-a" is not supported. [EID: 0x1]',
    },
  ],
  [
    'invalid',
    {
      code: 400,
      status: 'INVALID_ARGUMENT',
      message:
        'Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "v6e-1", could not be found in the zonal accelerator configurations for "asia-east1-a".; the accelerator v6e-1 was not found in zone asia-east1-a [EID: 0x1]',
    },
  ],
  [
    'invalid',
    {
      code: 400,
      status: 'INVALID_ARGUMENT',
      message: `Invalid JSON payload received. Unknown name "flub" at 'node': Cannot find field.`,
    },
  ],
  [
    'permission',
    {
      code: 403,
      status: 'PERMISSION_DENIED',
      message: `Permission denied on 'locations/us-central2-b' (or it may not exist).`,
    },
  ],
  [
    'permission',
    {
      code: 403,
      status: 'PERMISSION_DENIED',
      message:
        "Permission 'tpu.nodes.create' denied on resource '//tpu.googleapis.com/projects/p' (or it may not exist).",
    },
  ],
  // Its "quota project" is a matter of the login, and no quota.
  [
    'permission',
    {
      code: 403,
      status: 'PERMISSION_DENIED',
      message: 'The tpu.googleapis.com API requires a quota project, which is not set by default.',
    },
  ],
  ['unreachable', { code: 401, status: 'UNAUTHENTICATED', message: 'Request had invalid authentication credentials.' }],
  ['unreachable', { code: 503, status: 'UNAVAILABLE', message: 'The service is currently unavailable.' }],
  ['unreachable', { code: 504 }],
  ['internal', { code: 500 }],
  ['internal', { code: 499 }],
  ['internal', {}],
];

suite('an error of the cloud', () => {
  for (const [kind, body] of rows) {
    test(`${kind}: ${body.code} ${(body.message ?? '').slice(0, 70)}`, () => {
      const error = classify(body);
      assert.equal(error.kind, kind);
      assert.notEqual(error.message, '');
      // The words are kept whole, also the id that differs each time: somebody may have to quote it.
      assert.ok(error.raw.endsWith(body.message ?? error.raw));
    });
  }
});
