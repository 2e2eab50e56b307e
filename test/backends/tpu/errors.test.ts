// Google's error messages from public reports, and their classification.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { classifyError, type StatusBody } from '../../../src/backends/tpu/api.ts';
import type { CloudErrorKind } from '../../../src/core/model/job.ts';

/**
 * The kind, then the code, the status and the message, `-` where one is missing. Without a status it is in an operation, where
 * the code is a gRPC number; with one it came at once, where the code is an HTTP status. The "quota project" is a matter of the
 * login, and no quota.
 */
const table = `
stockout 8 - There is no more capacity in the zone "us-central2-b"; you can try in another zone where Cloud TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions) [EID: 0x1a2b]
stockout 9 - Insufficient reserved capacity. Contact customer support to increase your reservation. [EID: 0x1]
stockout 8 - Insufficient reserved capacity. Contact customer support to increase your reservation. [EID: 0x1]
stockout 8 -
quota 8 - Quota 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI' exhausted. Limit 20800 in region us-central2
quota 8 - IN_USE_ADDRESSES limit (8)
internal 13 - an internal error has occurred
internal 3 - Cloud TPU received a bad request. update is not supported while in state PREEMPTED [EID: 0x1]
invalid 3 - FLEX_START provisioning model is not supported for accelerator type "v6e-1" in location "us-east5-b"
permission 7 - User does not have permission to submit requests into this queue for accelerator type v6e-8 in location us-east5-b
internal 9 - the queued resource cannot be deleted in this state
internal 10 - conflict
quota 429 RESOURCE_EXHAUSTED Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0 in region us-east5.
rate_limited 429 RESOURCE_EXHAUSTED Quota exceeded for quota metric 'CreateNode requests' and limit 'Maximum number of CreateNode requests per minute'
not_found 404 NOT_FOUND Resource 'projects/p/locations/us-central2-b/nodes/x' was not found
invalid 400 INVALID_ARGUMENT Cloud TPU received a bad request. The requested zone "asia-northeast1-a" is not supported. [EID: 0x1]
invalid 400 INVALID_ARGUMENT Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "v6e-1", could not be found in the zonal accelerator configurations for "asia-east1-a".; the accelerator v6e-1 was not found in zone asia-east1-a [EID: 0x1]
invalid 400 INVALID_ARGUMENT Invalid JSON payload received. Unknown name "flub" at 'node': Cannot find field.
permission 403 PERMISSION_DENIED Permission denied on 'locations/us-central2-b' (or it may not exist).
permission 403 PERMISSION_DENIED Permission 'tpu.nodes.create' denied on resource '//tpu.googleapis.com/projects/p' (or it may not exist).
permission 403 PERMISSION_DENIED The tpu.googleapis.com API requires a quota project, which is not set by default.
unreachable 401 UNAUTHENTICATED Request had invalid authentication credentials.
unreachable 503 UNAVAILABLE The service is currently unavailable.
unreachable 504 - -
internal 500 - -
internal 499 - -
internal - - -
`;

const rows = table
  .trim()
  .split('\n')
  .map((line): readonly [CloudErrorKind, StatusBody] => {
    const [, kind = '', code = '-', status = '-', message = '-'] = /^(\S+) (\S+) (\S+) ?(.*)$/.exec(line) ?? [];
    const body = {
      ...(code !== '-' && { code: Number(code) }),
      ...(status !== '-' && { status }),
      ...(message !== '-' && { message }),
    };
    return [kind as CloudErrorKind, body];
  });

suite('an error of the cloud', () => {
  for (const [kind, body] of rows) {
    test(`${kind}: ${body.code} ${(body.message ?? '').slice(0, 70)}`, () => {
      const error = classifyError(body);
      assert.equal(error.kind, kind);
      assert.notEqual(error.message, '');
      // The raw message stays complete, with its request id: users may have to quote it.
      assert.ok(error.raw.endsWith(body.message ?? error.raw));
    });
  }
});
