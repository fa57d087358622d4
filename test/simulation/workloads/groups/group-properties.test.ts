/** Every property is shown a violation that it must find, and a history that it must accept. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fenceOf } from '../../../../src/base/fence.ts';
import type { Observation, Property, WorkloadRun } from '../../checking/workload.ts';
import { Timeline } from '../../../../src/simulation/engine/timeline.ts';
import { historiesAreLinearizable } from './client-history.ts';
import type { CellCommand } from './replicated-cells.ts';
import type { GroupNodeStatus } from '../../checking/group-observations.ts';
import { groupProperties } from './group-properties.ts';

type Step = Observation | { readonly passMs: number };

/** The first violation that the property reports, in a world where only these steps happen. */
function violationOf(property: Property, steps: readonly Step[]): string | undefined {
  const timeline = new Timeline();
  const checker = property({ world: { timeline } } as unknown as WorkloadRun);
  for (const step of steps) {
    if ('passMs' in step) timeline.runUntil(timeline.nowMs + step.passMs);
    else {
      const violation = checker.observe?.(step);
      if (violation !== undefined) return violation;
    }
  }
  return checker.atEnd?.();
}

const voters = ['n1', 'n2', 'n3'];
const leads = (node: string, term: number): Step => ({ kind: 'leads', node, term, voters });
const commitAdvanced = (isDurable: boolean): Step => ({
  kind: 'commitAdvanced',
  node: 'n1',
  term: 2,
  index: 7,
  isDurable,
  voters,
});
const voted = (node: string, term: number, candidate: string): Step => ({ kind: 'voted', node, term, candidate });
const command = (number: number, attempt = 1): CellCommand => ({
  ...{ client: 'c1', number, attempt, key: 'a' },
  action: { kind: 'append', value: `<${number}>` },
});
const applied = (
  node: string,
  index: number,
  chain: number,
  more: Partial<{ command: CellCommand; effective: boolean }> = {},
): Step => ({
  ...{ kind: 'applied', node, index, chain, term: 1, command: command(index), effective: true },
  ...more,
});
const change = (number: number, ok?: boolean): Step => {
  const about = { node: 'n1', change: number };
  return ok === undefined ? { kind: 'changeStarted', ...about } : { kind: 'changeEnded', ...about, ok };
};
const stopped = (node: string): Step => ({ kind: 'stopped', node });
const status = (node: string, more: Partial<GroupNodeStatus> = {}): GroupNodeStatus => ({
  ...{ node, isLeading: node === 'n1', leader: 'n1', term: 3, isMember: true, index: 9, chain: 99 },
  ...more,
});
const groupStatus = (...nodes: readonly GroupNodeStatus[]): Step => ({ kind: 'groupStatus', nodes });
const healed: Step = { kind: 'healed' };

type Case = readonly [property: keyof typeof groupProperties, wrong: RegExp | undefined, steps: readonly Step[]];

const cases: readonly Case[] = [
  ['oneLeaderPerTerm', undefined, [leads('n1', 1), leads('n2', 2), leads('n1', 3), leads('n1', 3)]],
  ['oneLeaderPerTerm', /n1 and n2 lead in term 1/, [leads('n1', 1), leads('n2', 2), leads('n2', 1)]],

  ['termsAreMonotonic', undefined, [1, 1, 4].map((term): Step => ({ kind: 'termSent', node: 'n1', term }))],
  [
    'termsAreMonotonic',
    /n1 is in term 3 after 4/,
    [{ kind: 'termSent', node: 'n1', term: 4 }, stopped('n1'), { kind: 'termSent', node: 'n1', term: 3 }],
  ],

  ['oneVotePerTerm', undefined, [voted('n1', 1, 'n2'), voted('n1', 1, 'n2'), voted('n1', 2, 'n3'), leads('n1', 3)]],
  [
    'oneVotePerTerm',
    /n1 votes for n2 and for n3 in term 1/,
    [voted('n1', 1, 'n2'), stopped('n1'), voted('n1', 1, 'n3')],
  ],
  ['oneVotePerTerm', /n1 votes for n2 and for n1 in term 1/, [voted('n1', 1, 'n2'), leads('n1', 1)]],

  ['leadersHaveAMajority', undefined, [voted('n2', 1, 'n1'), leads('n1', 1)]],
  ['leadersHaveAMajority', /n1 leads in term 2 with 1 votes of 3/, [voted('n2', 1, 'n1'), leads('n1', 2)]],
  ['leadersHaveAMajority', /with 1 votes/, [voted('n2', 1, 'n3'), voted('n9', 1, 'n1'), leads('n1', 1)]],

  [
    'commitsHaveAMajority',
    undefined,
    [{ kind: 'logAcknowledged', node: 'n2', term: 2, index: 7 }, commitAdvanced(true)],
  ],
  [
    'commitsHaveAMajority',
    /n1 commits 7 in term 2, but 1 of 3/,
    [
      { kind: 'logAcknowledged', node: 'n2', term: 2, index: 6 },
      { kind: 'logAcknowledged', node: 'n3', term: 1, index: 7 },
      commitAdvanced(true),
    ],
  ],

  [
    'commitsHaveAMajority',
    /it is an entry of term 1/,
    [{ kind: 'logAcknowledged', node: 'n2', term: 2, index: 7 }, applied('n1', 7, 1), commitAdvanced(true)],
  ],

  [
    'commitsHaveAMajority',
    /but 1 of 3/,
    [{ kind: 'logAcknowledged', node: 'n2', term: 2, index: 7 }, commitAdvanced(false)],
  ],

  ['leasesNeverOverlap', undefined, [{ kind: 'leasesHeld', nodes: ['n1'] }]],
  ['leasesNeverOverlap', /n1 and n2 rely/, [{ kind: 'leasesHeld', nodes: ['n1', 'n2'] }]],

  [
    'fencesGrow',
    undefined,
    [
      { kind: 'elected', node: 'n1', fence: fenceOf(1, 9) },
      { kind: 'elected', node: 'n2', fence: fenceOf(2, 3) },
    ],
  ],
  [
    'fencesGrow',
    /n2 became leader/,
    [
      { kind: 'elected', node: 'n1', fence: fenceOf(2, 3) },
      { kind: 'elected', node: 'n2', fence: fenceOf(2, 3) },
    ],
  ],
  [
    'fencesGrow',
    undefined,
    [applied('n1', 4, 1), { kind: 'committed', node: 'n1', command: command(4), index: 4, fence: fenceOf(1, 4) }],
  ],
  [
    'fencesGrow',
    /entry 4 of term 1 was committed under the fence 2\/4/,
    [applied('n1', 4, 1), { kind: 'committed', node: 'n1', command: command(4), index: 4, fence: fenceOf(2, 4) }],
  ],

  [
    'committedStaysCommitted',
    undefined,
    [
      applied('n1', 1, 10),
      applied('n1', 3, 30),
      applied('n2', 1, 10),
      stopped('n1'),
      applied('n1', 1, 10),
      { kind: 'restored', node: 'n2', index: 3, chain: 30 },
    ],
  ],
  ['committedStaysCommitted', /n2 has another history up to 1/, [applied('n1', 1, 10), applied('n2', 1, 11)]],
  ['committedStaysCommitted', /n1 applies 1 after 1/, [applied('n1', 1, 10), applied('n1', 1, 10)]],
  [
    'committedStaysCommitted',
    /n2 has 2, where other nodes have nothing/,
    [applied('n1', 1, 10), applied('n1', 3, 30), applied('n2', 2, 20)],
  ],
  [
    'committedStaysCommitted',
    /n1 goes back to 1 from 3/,
    [applied('n1', 1, 10), applied('n1', 3, 30), { kind: 'restored', node: 'n1', index: 1, chain: 10 }],
  ],

  [
    'commandsApplyOnce',
    undefined,
    [applied('n1', 1, 1), applied('n2', 1, 1), applied('n1', 2, 2, { command: command(1, 2), effective: false })],
  ],
  [
    'commandsApplyOnce',
    /command c1\/1 takes effect at 1 and at 2/,
    [applied('n1', 1, 1), applied('n1', 2, 2, { command: command(1, 2) })],
  ],
  [
    'commandsApplyOnce',
    undefined,
    [{ kind: 'attemptFailed', command: command(1), code: 'DEADLINE', stateChanged: 'maybe' }, applied('n1', 1, 1)],
  ],
  [
    'commandsApplyOnce',
    /c1\/1\/1 ended with NO_QUORUM, but is committed/,
    [{ kind: 'attemptFailed', command: command(1), code: 'NO_QUORUM', stateChanged: 'no' }, applied('n1', 1, 1)],
  ],
  [
    'commandsApplyOnce',
    /c1\/1\/1 ended with NOT_LEADER, but was committed/,
    [applied('n1', 1, 1), { kind: 'attemptFailed', command: command(1), code: 'NOT_LEADER', stateChanged: 'no' }],
  ],

  [
    'oneLeaderAfterHealing',
    undefined,
    [
      healed,
      groupStatus(),
      { passMs: 10_000 },
      groupStatus(status('n1'), status('n2'), status('n3', { isMember: false, leader: undefined })),
    ],
  ],
  ['oneLeaderAfterHealing', /no node leads, 10.0 s/, [healed, { passMs: 10_000 }, groupStatus(status('n2'))]],
  [
    'oneLeaderAfterHealing',
    /n1 and n2 lead/,
    [healed, { passMs: 11_000 }, groupStatus(status('n1'), status('n2', { isLeading: true }))],
  ],
  [
    'oneLeaderAfterHealing',
    /n2 does not follow n1/,
    [healed, { passMs: 11_000 }, groupStatus(status('n1'), status('n2', { term: 2 }))],
  ],
  [
    'oneLeaderAfterHealing',
    /n1 in term 3 has lost leadership to n1 in term 4/,
    [healed, { passMs: 11_000 }, groupStatus(status('n1')), groupStatus(status('n1', { term: 4 }))],
  ],
  ['oneLeaderAfterHealing', /no status was read/, [healed]],

  [
    'oneChangeAtATime',
    undefined,
    [change(1), change(2), change(2, false), change(1, true), change(3), stopped('n1'), change(1), change(1, true)],
  ],
  ['oneChangeAtATime', undefined, [change(1), change(2), change(1, false), change(2, true)]],
  ['oneChangeAtATime', /n1 makes a change/, [change(1), change(2), change(1, true), change(2, true)]],

  [
    'membersConverge',
    undefined,
    [groupStatus(status('n1'), status('n2'), status('n3', { isMember: false, index: 2 }))],
  ],
  ['membersConverge', /n1 is at 9, n2 at 8/, [groupStatus(status('n1'), status('n2', { index: 8 }))]],
  ['membersConverge', /n1 is at 9, n2 at 9/, [groupStatus(status('n1'), status('n2', { chain: 98 }))]],
  [
    'membersConverge',
    /12 was acknowledged/,
    [
      { kind: 'committed', node: 'n1', command: command(1), index: 12, fence: fenceOf(1, 12) },
      groupStatus(status('n1')),
    ],
  ],
  ['membersConverge', /no members/, []],

  [
    'leaderIsStable',
    undefined,
    [
      leads('n2', 2),
      { kind: 'termSent', node: 'n3', term: 3 },
      groupStatus(status('n1'), status('n2')),
      leads('n1', 3),
    ],
  ],
  ['leaderIsStable', /n2 deposes n1/, [groupStatus(status('n1'), status('n2')), leads('n2', 4)]],
  [
    'leaderIsStable',
    /n3 raises the term from 3 to 4/,
    [groupStatus(status('n1'), status('n2')), { kind: 'termSent', node: 'n3', term: 4 }],
  ],
  ['leaderIsStable', /no leader was ever followed/, [groupStatus(status('n1'), status('n2', { leader: undefined }))]],
];

describe('a property of groups', () => {
  for (const [name, wrong, steps] of cases) {
    it(`${name} ${wrong === undefined ? 'accepts a correct history' : `reports ${wrong.source}`}`, () => {
      const violation = violationOf(groupProperties[name], steps);
      if (wrong === undefined) assert.equal(violation, undefined);
      else assert.match(violation ?? 'nothing', wrong);
    });
  }

  it('is shown both a correct history and a violation', () => {
    for (const name of Object.keys(groupProperties)) {
      const ways = new Set(cases.filter(([property]) => property === name).map(([, wrong]) => wrong === undefined));
      assert.equal(ways.size, 2, name);
    }
  });
});

describe('historiesAreLinearizable', () => {
  const called = (number: number, action: CellCommand['action']): Step => ({
    kind: 'called',
    command: { ...command(number), action },
  });
  const replied = (number: number, returned: string): Step => ({
    kind: 'replied',
    command: { client: 'c1', number },
    returned,
  });

  it('accepts a read that a command without a reply explains', () => {
    const steps = [called(1, { kind: 'put', value: 'x' }), called(2, { kind: 'read' }), replied(2, 'x')];
    assert.equal(violationOf(historiesAreLinearizable, steps), undefined);
  });

  it('reports a read that misses a write acknowledged before it', () => {
    const steps = [called(1, { kind: 'put', value: 'x' }), replied(1, ''), called(2, { kind: 'read' }), replied(2, '')];
    assert.match(
      violationOf(historiesAreLinearizable, steps) ?? '',
      /^a: after 1 operations none of these fits: \{"kind":"read"/,
    );
  });

  it('reports that no client got a reply', () => {
    assert.match(violationOf(historiesAreLinearizable, [called(1, { kind: 'read' })]) ?? '', /no client/);
  });
});
