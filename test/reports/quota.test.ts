import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  quotaLimits,
  quotaRows,
  quotaShortfall,
  type CountedTpu,
  type ProjectQuota,
  type QuotaLimit,
} from '../../src/reports/quota.ts';

const zone = 'us-east5-b';

function limit(different: Partial<QuotaLimit> = {}): QuotaLimit {
  return { generation: 'v6e', variant: null, pricing: 'spot', scope: 'zone', location: zone, limit: 64, ...different };
}

function tpu(name: string, different: Partial<CountedTpu> = {}): CountedTpu {
  const holder = { owner: 'alice', job: null, name, state: 'READY', reclaimable: null, command: null };
  return { zone, accelerator: 'v6e-16', pricing: 'spot', nodeCount: 1, use: 'used', holder, ...different };
}

function known(limits: readonly QuotaLimit[] | null, tpus: readonly CountedTpu[] = []): ProjectQuota {
  return {
    project: 'lab',
    limits: limits === null ? null : { readAt: 7, limits },
    tpus,
    uncheckedZones: new Set(),
  };
}

const chipsOf = (project: ProjectQuota) =>
  quotaRows(project).map((row) => [row.zone, row.limitState, row.limitChips, row.usedChips, row.leftChips]);

test('used, requested and reclaimable chips are summed, and the holders are named', () => {
  const dead = tpu('dead', { nodeCount: 2 });
  const tpus = [
    tpu('a'),
    {
      ...dead,
      holder: { ...dead.holder, owner: null, reclaimable: 'ended', command: 'jobman gc dead --yes' } as const,
    },
    tpu('waits', { accelerator: 'v6e-8', use: 'requested' }),
    tpu('other', { pricing: 'ondemand' }),
  ];
  const [ondemand, spot] = quotaRows(known([limit()], tpus));
  assert.deepEqual([ondemand?.pricing, ondemand?.limitState, ondemand?.usedChips], ['ondemand', 'unknown', 16]);
  assert.deepEqual(
    [spot?.limitChips, spot?.usedChips, spot?.reclaimableChips, spot?.requestedChips, spot?.leftChips],
    [64, 48, 32, 8, 8],
  );
  assert.equal(spot?.quotaId, 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI');
  assert.equal(spot.limitReadAt, 7);
  assert.deepEqual(
    spot.holders.map(({ name, owner, chips, use }) => [name, owner, chips, use]),
    [
      ['dead', null, 32, 'used'],
      ['a', 'alice', 16, 'used'],
      ['waits', 'alice', 8, 'requested'],
    ],
  );
});

test('preemptible counts as spot, and cores are converted to chips', () => {
  const v5p = limit({ generation: 'v5p', limit: 128 });
  const tpus = [tpu('a', { accelerator: 'v5p-16', pricing: 'preemptible' })];
  assert.deepEqual(chipsOf(known([v5p], tpus)), [[zone, 'limited', 64, 8, 56]]);
});

test('a zone has the limit that leaves the least: its own, or that of its region', () => {
  const regional = limit({ scope: 'region', location: 'us-east5', limit: 40 });
  const tpus = [tpu('a'), tpu('b', { zone: 'us-east5-a' })];
  const rows = quotaRows(known([limit(), regional], tpus));
  assert.deepEqual(
    rows.map((row) => [row.zone, row.scope, row.usedChips, row.leftChips]),
    [
      ['us-east5-a', 'region', 16, 8],
      ['us-east5-b', 'region', 16, 8],
      ['us-east5-c', 'region', 0, 8],
    ],
  );
});

test('a limit of the region lists the zones with such TPUs; no limit is not a row', () => {
  const regional = limit({ scope: 'region', location: 'us-east5', limit: 40 });
  assert.deepEqual(
    quotaRows(known([regional])).map((row) => row.zone),
    ['us-east5-a', 'us-east5-b', 'us-east5-c'],
  );
  assert.deepEqual(quotaRows(known([limit({ limit: null })])), []);
  assert.deepEqual(chipsOf(known([limit({ limit: null })], [tpu('a')])), [[zone, 'unlimited', null, 16, null]]);
});

test('what is left is never negative', () => {
  assert.deepEqual(chipsOf(known([limit({ limit: 8 })], [tpu('a')])), [[zone, 'limited', 8, 16, 0]]);
});

suite('unknown is not 0', () => {
  test('limits that could not be read', () => {
    assert.deepEqual(chipsOf(known(null, [tpu('a')])), [[zone, 'unknown', null, 16, null]]);
  });

  test('TPUs that could not be listed', () => {
    const project = known([limit(), limit({ location: 'us-east5-a' })], [tpu('a')]);
    assert.deepEqual(chipsOf({ ...project, uncheckedZones: new Set(['us-east5-a']) }), [
      ['us-east5-a', 'limited', 64, null, null],
      [zone, 'limited', 64, 16, 48],
    ]);
    assert.deepEqual(chipsOf({ ...known([limit()]), uncheckedZones: 'all' }), [[zone, 'limited', 64, null, null]]);
  });
});

test('a limit is one row, however many zones share it, and the use there counts against it', () => {
  const regional = limit({ scope: 'region', location: 'us-east5', limit: 64 });
  const project = known([limit(), regional, limit({ location: 'us-east5-a', limit: null })], [tpu('a'), tpu('b')]);
  assert.deepEqual(
    quotaLimits(project).map(({ scope, location, limitChips, leftChips }) => [scope, location, limitChips, leftChips]),
    [
      ['zone', zone, 64, 32],
      ['region', 'us-east5', 64, 32],
    ],
  );
});

suite('a request exceeds the quota', () => {
  const request = { zone, accelerator: 'v6e-16', pricing: 'spot' } as const;

  test('if it has more chips than are left', () => {
    const full = known([limit({ limit: 40 })], [tpu('a'), tpu('b', { use: 'requested' })]);
    assert.deepEqual(quotaShortfall(full, request), {
      zone,
      generation: 'v6e',
      pricing: 'spot',
      scope: 'zone',
      wantedChips: 16,
      limitChips: 40,
      usedChips: 32,
    });
    assert.equal(quotaShortfall(full, { ...request, accelerator: 'v6e-8' }), null);
    assert.equal(quotaShortfall(full, { ...request, pricing: 'ondemand' }), null);
    assert.equal(quotaShortfall(full, { ...request, accelerator: 'v6e-8', nodeCount: 2 })?.wantedChips, 16);
  });

  test('if it has more than the limit, when the TPUs could not be listed', () => {
    const unlisted: ProjectQuota = { ...known([limit({ limit: 8 })]), uncheckedZones: 'all' };
    assert.equal(quotaShortfall(unlisted, request)?.usedChips, null);
    assert.equal(quotaShortfall({ ...unlisted, limits: { readAt: 7, limits: [limit()] } }, request), null);
  });

  test('never if the limit is not known', () => {
    assert.equal(quotaShortfall(known(null), request), null);
    assert.equal(quotaShortfall(known([limit({ limit: null })]), request), null);
    assert.equal(quotaShortfall(known([limit()]), { ...request, accelerator: 'v99-8' }), null);
  });
});
