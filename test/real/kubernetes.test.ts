/** Jobs of a real cluster: command line in; text, exit code and cluster state out. */
import assert from 'node:assert/strict';
import { suite } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { withoutLogArchive, kubeTest, openFlakyProxy } from '../support/kube.ts';

suite('a job in a cluster', () => {
  kubeTest('is submitted, followed, shown and deleted, as kubectl sees it', async (kube) => {
    const person = kube.adminUser();
    const followed = await person.submit('listing', 'echo one; echo two; sleep 1; echo three', '--follow');
    assert.equal(followed, 'listing\none\ntwo\nthree\n');
    const { metadata } = kube.get<{ metadata: { uid: string; labels: Record<string, string> } }>('job', 'listing');
    assert.equal(metadata.labels['app.kubernetes.io/managed-by'], 'jobman');

    assert.equal(await person.output('logs listing --tail 1'), 'three\n');
    assert.equal((await person.output('logs listing --grep t --json')).split('\n').length, 3);
    const shown = JSON.parse(await person.output('details -j listing --json')) as {
      phase: string;
      object: { metadata: { uid: string } };
    };
    assert.deepEqual([shown.phase, shown.object.metadata.uid], ['succeeded', metadata.uid]);
    assert.match(await person.output('details listing'), /^listing \(.+\)  ✓ succeeded\nwhy +Job listing succeeded/);
    await person.runRefused(3, /There is no job named "unlisted", here or in /, 'details -j unlisted');

    const failed = await person.run('submit -i alpine -r no-gpu -j failing --follow -- false');
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /failing failed .*: its program ended with exit code 1\./);

    assert.match(await person.output('delete -j listing'), /^Job listing and its pods are deleted from /);
    assert.equal(kube.kubectl('get', 'pods', '-l', 'job-name=listing', '-o', 'name'), '');
  });

  kubeTest('with several pods is shown per pod', async (kube) => {
    const person = kube.adminUser();
    const program = 'echo "pod $JOB_COMPLETION_INDEX"; sleep 1; echo end';
    const followed = await person.submit('many', program, '--parallelism 3 --follow');
    const expected = [0, 1, 2].flatMap((index) => [`[${index}] end`, `[${index}] pod ${index}`]);
    assert.deepEqual(followed.trim().split('\n').slice(1).toSorted(), expected.toSorted());
    assert.equal(await person.output('logs many -w 1 --raw'), 'pod 1\nend\n');
  });

  kubeTest('is followed over a connection that is cut again and again: nothing is lost or repeated', async (kube) => {
    const person = kube.adminUser();
    const line = await openFlakyProxy(kube, 700);
    await person.submit(
      'talker',
      'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo line $i; [ $((i % 500)) = 0 ] && sleep 1; done; true',
    );
    const phase = (): string => kube.field('.items[*].status.phase', 'pods', '-l', 'job-name=talker');
    await eventually(() => phase() === 'Running', { withinMs: 60_000 });
    // The first connection may be cut too, which is reported.
    const follow = () => person.withKubeconfig(line.kubeconfig).run('logs -f -j talker');
    let followed = await follow();
    for (let attempt = 0; attempt < 5 && followed.stdout === ''; attempt += 1) followed = await follow();
    const whole = Array.from({ length: 4000 }, (_, index) => `line ${index + 1}\n`).join('');
    assert.equal(followed.stdout, whole, followed.stderr);
    assert.ok(line.cutCount() > 0, 'the connection was never cut');
  });

  kubeTest('is deleted with all others after they are listed; --own keeps jobs of other tools', async (kube) => {
    const person = kube.adminUser(withoutLogArchive);
    await person.submit('mine', 'true');
    kube.kubectl('create', 'job', 'theirs', '--image=alpine', '--', 'true');
    const shown = /theirs +- [^]*Nothing changed: 2 jobs in .*, 1 of them not yours\. Confirm with --yes/;
    const refused = await person.run('delete --all');
    assert.equal(refused.code, 4);
    assert.match(refused.stderr, shown);
    assert.equal(kube.jobs().split('\n').length, 2);

    await person.output('delete --all --own --yes');
    assert.equal(kube.jobs(), 'job.batch/theirs');
    await person.output('delete --all --yes');
    assert.equal(kube.kubectl('get', 'jobs,pods', '-o', 'name'), '');
  });
});
