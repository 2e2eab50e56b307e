// The verbs of the built-in cloud, for the help. The cloud has the list that counts, and the terminal does not know
// the cloud: a test holds this copy to it.

/** Each verb in the cloud's own words. From `stockout` on a verb leaves a condition. */
export const emulatorVerbs: readonly (readonly [verb: string, meaning: string])[] = [
  ['preempt', 'take a node away, as the cloud takes spot capacity'],
  ['maintenance', 'take a node down for maintenance; it comes back with its disks'],
  ['kill-host', 'cut the power of one worker: nobody answers there, while the cloud still says READY'],
  ['hang-host', 'freeze one worker: its processes stand still and its connections stay silent'],
  ['fill-disk', 'fill the disk of one worker: nothing can be written there'],
  ['ssh-refuse', 'close the SSH door of one worker: its programs run on, and nobody gets in'],
  ['start-host', 'end all that is the matter with one worker; a dead one boots'],
  ['stockout', 'no capacity in a zone, for a type or a generation'],
  ['capacity', 'how many chips of a generation a zone has'],
  ['quota', 'how much a project may hold in a region: cores (of v5e, v6e chips), `addresses`, `requests` a minute'],
  ['reserve', 'set chips of a generation in a zone aside, as a reservation does'],
  ['price', 'what a chip costs an hour, in US dollars; `bill` counts with it'],
  [
    'permission',
    'refuse: a zone, a right (tpu.nodes.create, storage.objects.get), `login` (it has expired) or `api` (off)',
  ],
  ['hold', 'a queue that stays waiting, a creation that does not end'],
  ['fail', 'let the next creation fail (once, or `times`)'],
  ['slow', 'let things take `factor` times longer, or delay every reply (those of `storage`) by `replies`'],
  ['drop', 'lose the next reply (or `times`) of a changing call, although the act is done'],
  ['flaky', 'answer 503 with probability `p`: to some calls, in a zone, or from `storage`'],
  [
    'bucket',
    'say where a bucket is, or put it there: a region, a zone, US, EU, ASIA, NAM4, or two regions with a comma',
  ],
  ['bill', 'say what all nodes so far would have cost at Google'],
  ['clear', 'take conditions off: those of one verb, or all'],
];
