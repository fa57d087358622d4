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

/** The first thing that the property has to say, in a world where nothing but this happens. */
function judge(property: Property, steps: readonly Step[]): string | undefined {
  const timeline = new Timeline();
  const checker = property({ world: { timeline } } as unknown as WorkloadRun);
  for (const step of steps) {
    if ('passMs' in step) timeline.runUntil(timeline.nowMs + step.passMs);
    else {
      const wrong = checker.observe?.(step);
      if (wrong !== undefined) return wrong;
    }
  }
  return checker.atEnd?.();
}

const voters = ['n1', 'n2', 'n3'];
const leads = (node: string, term: number): Step => ({ kind: 'leads', node, term, voters });
const commits = (isDurable: boolean): Step => ({ kind: 'commits', node: 'n1', term: 2, index: 7, isDurable, voters });
const voted = (node: string, term: number, candidate: string): Step => ({ kind: 'voted', node, term, candidate });
const order = (number: number, attempt = 1): CellCommand => ({
  ...{ client: 'c1', number, attempt, key: 'a' },
  action: { kind: 'append', value: `<${number}>` },
});
const applied = (
  node: string,
  index: number,
  chain: number,
  more: Partial<{ order: CellCommand; effective: boolean }> = {},
): Step => ({
  ...{ kind: 'applied', node, index, chain, term: 1, order: order(index), effective: true },
  ...more,
});
const change = (number: number, ok?: boolean): Step => {
  const about = { node: 'n1', change: number };
  return ok === undefined ? { kind: 'changeStarted', ...about } : { kind: 'changeEnded', ...about, ok };
};
const stopped = (node: string): Step => ({ kind: 'stopped', node });
const seat = (node: string, more: Partial<GroupNodeStatus> = {}): GroupNodeStatus => ({
  ...{ node, isLeading: node === 'n1', leader: 'n1', term: 3, isMember: true, index: 9, chain: 99 },
  ...more,
});
const standing = (...seats: readonly GroupNodeStatus[]): Step => ({ kind: 'standing', seats });
const healed: Step = { kind: 'healed' };

type Case = readonly [property: keyof typeof groupProperties, wrong: RegExp | undefined, steps: readonly Step[]];

const cases: readonly Case[] = [
  ['oneLeaderPerTerm', undefined, [leads('n1', 1), leads('n2', 2), leads('n1', 3), leads('n1', 3)]],
  ['oneLeaderPerTerm', /n1 and n2 lead in term 1/, [leads('n1', 1), leads('n2', 2), leads('n2', 1)]],

  ['termsNeverGoBack', undefined, [1, 1, 4].map((term): Step => ({ kind: 'toldTerm', node: 'n1', term }))],
  [
    'termsNeverGoBack',
    /n1 is in term 3 after 4/,
    [{ kind: 'toldTerm', node: 'n1', term: 4 }, stopped('n1'), { kind: 'toldTerm', node: 'n1', term: 3 }],
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
  ['leadersHaveAMajority', /with 1 votes/, [voted('n2', 1, 'n3'), voted('stranger', 1, 'n1'), leads('n1', 1)]],

  ['agreementsHaveAMajority', undefined, [{ kind: 'holds', node: 'n2', term: 2, index: 7 }, commits(true)]],
  [
    'agreementsHaveAMajority',
    /n1 regards 7 as agreed in term 2, but 1 of 3/,
    [{ kind: 'holds', node: 'n2', term: 2, index: 6 }, { kind: 'holds', node: 'n3', term: 1, index: 7 }, commits(true)],
  ],

  [
    'agreementsHaveAMajority',
    /it is an entry of term 1/,
    [{ kind: 'holds', node: 'n2', term: 2, index: 7 }, applied('n1', 7, 1), commits(true)],
  ],

  ['agreementsHaveAMajority', /but 1 of 3/, [{ kind: 'holds', node: 'n2', term: 2, index: 7 }, commits(false)]],

  ['leasesNeverOverlap', undefined, [{ kind: 'leases', nodes: ['n1'] }]],
  ['leasesNeverOverlap', /n1 and n2 rely/, [{ kind: 'leases', nodes: ['n1', 'n2'] }]],

  [
    'fencesGrow',
    undefined,
    [
      { kind: 'became', node: 'n1', fence: fenceOf(1, 9) },
      { kind: 'became', node: 'n2', fence: fenceOf(2, 3) },
    ],
  ],
  [
    'fencesGrow',
    /n2 became leader/,
    [
      { kind: 'became', node: 'n1', fence: fenceOf(2, 3) },
      { kind: 'became', node: 'n2', fence: fenceOf(2, 3) },
    ],
  ],
  [
    'fencesGrow',
    undefined,
    [applied('n1', 4, 1), { kind: 'agreed', node: 'n1', order: order(4), index: 4, fence: fenceOf(1, 4) }],
  ],
  [
    'fencesGrow',
    /entry 4 of term 1 was agreed under the fence 2\/4/,
    [applied('n1', 4, 1), { kind: 'agreed', node: 'n1', order: order(4), index: 4, fence: fenceOf(2, 4) }],
  ],

  [
    'agreedStaysAgreed',
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
  ['agreedStaysAgreed', /n2 has another history up to 1/, [applied('n1', 1, 10), applied('n2', 1, 11)]],
  ['agreedStaysAgreed', /n1 applies 1 after 1/, [applied('n1', 1, 10), applied('n1', 1, 10)]],
  [
    'agreedStaysAgreed',
    /n2 has 2, where others have nothing/,
    [applied('n1', 1, 10), applied('n1', 3, 30), applied('n2', 2, 20)],
  ],
  [
    'agreedStaysAgreed',
    /n1 goes back to 1 from 3/,
    [applied('n1', 1, 10), applied('n1', 3, 30), { kind: 'restored', node: 'n1', index: 1, chain: 10 }],
  ],

  [
    'ordersAreDoneOnce',
    undefined,
    [applied('n1', 1, 1), applied('n2', 1, 1), applied('n1', 2, 2, { order: order(1, 2), effective: false })],
  ],
  [
    'ordersAreDoneOnce',
    /order c1\/1 is done at 1 and at 2/,
    [applied('n1', 1, 1), applied('n1', 2, 2, { order: order(1, 2) })],
  ],
  [
    'ordersAreDoneOnce',
    undefined,
    [{ kind: 'attemptFailed', order: order(1), code: 'DEADLINE', stateChanged: 'maybe' }, applied('n1', 1, 1)],
  ],
  [
    'ordersAreDoneOnce',
    /c1\/1\/1 ended with NO_QUORUM, but is agreed/,
    [{ kind: 'attemptFailed', order: order(1), code: 'NO_QUORUM', stateChanged: 'no' }, applied('n1', 1, 1)],
  ],
  [
    'ordersAreDoneOnce',
    /c1\/1\/1 ended with NOT_LEADER, but was agreed/,
    [applied('n1', 1, 1), { kind: 'attemptFailed', order: order(1), code: 'NOT_LEADER', stateChanged: 'no' }],
  ],

  [
    'oneLeaderAfterHealing',
    undefined,
    [
      healed,
      standing(),
      { passMs: 10_000 },
      standing(seat('n1'), seat('n2'), seat('n3', { isMember: false, leader: undefined })),
    ],
  ],
  ['oneLeaderAfterHealing', /nobody lead, 10.0 s/, [healed, { passMs: 10_000 }, standing(seat('n2'))]],
  [
    'oneLeaderAfterHealing',
    /n1 and n2 lead/,
    [healed, { passMs: 11_000 }, standing(seat('n1'), seat('n2', { isLeading: true }))],
  ],
  [
    'oneLeaderAfterHealing',
    /n2 does not follow n1/,
    [healed, { passMs: 11_000 }, standing(seat('n1'), seat('n2', { term: 2 }))],
  ],
  [
    'oneLeaderAfterHealing',
    /n1 in term 3 has lost the lead to n1 in term 4/,
    [healed, { passMs: 11_000 }, standing(seat('n1')), standing(seat('n1', { term: 4 }))],
  ],
  ['oneLeaderAfterHealing', /nobody looked/, [healed]],

  [
    'oneChangeAtATime',
    undefined,
    [change(1), change(2), change(2, false), change(1, true), change(3), stopped('n1'), change(1), change(1, true)],
  ],
  ['oneChangeAtATime', undefined, [change(1), change(2), change(1, false), change(2, true)]],
  ['oneChangeAtATime', /n1 makes a change/, [change(1), change(2), change(1, true), change(2, true)]],

  ['membersConverge', undefined, [standing(seat('n1'), seat('n2'), seat('n3', { isMember: false, index: 2 }))]],
  ['membersConverge', /n1 is at 9, n2 at 8/, [standing(seat('n1'), seat('n2', { index: 8 }))]],
  ['membersConverge', /n1 is at 9, n2 at 9/, [standing(seat('n1'), seat('n2', { chain: 98 }))]],
  [
    'membersConverge',
    /12 was acknowledged/,
    [{ kind: 'agreed', node: 'n1', order: order(1), index: 12, fence: fenceOf(1, 12) }, standing(seat('n1'))],
  ],
  ['membersConverge', /no members/, []],

  [
    'theLeaderStays',
    undefined,
    [leads('n2', 2), { kind: 'toldTerm', node: 'n3', term: 3 }, standing(seat('n1'), seat('n2')), leads('n1', 3)],
  ],
  ['theLeaderStays', /n2 deposes n1/, [standing(seat('n1'), seat('n2')), leads('n2', 4)]],
  [
    'theLeaderStays',
    /n3 raises the term from 3 to 4/,
    [standing(seat('n1'), seat('n2')), { kind: 'toldTerm', node: 'n3', term: 4 }],
  ],
  ['theLeaderStays', /nobody was ever followed/, [standing(seat('n1'), seat('n2', { leader: undefined }))]],
];

describe('the properties of a group', () => {
  for (const [name, wrong, steps] of cases) {
    it(`${name} ${wrong === undefined ? 'holds' : `says ${wrong.source}`}`, () => {
      const said = judge(groupProperties[name], steps);
      if (wrong === undefined) assert.equal(said, undefined);
      else assert.match(said ?? 'nothing', wrong);
    });
  }

  it('are all shown both ways', () => {
    for (const name of Object.keys(groupProperties)) {
      const ways = new Set(cases.filter(([property]) => property === name).map(([, wrong]) => wrong === undefined));
      assert.equal(ways.size, 2, name);
    }
  });
});

describe('clientsSeeOneOrder', () => {
  const called = (number: number, action: CellCommand['action']): Step => ({
    kind: 'called',
    order: { ...order(number), action },
  });
  const answered = (number: number, saw: string): Step => ({ kind: 'answered', order: { client: 'c1', number }, saw });

  it('holds when an order without an answer explains a read', () => {
    const steps = [called(1, { kind: 'put', value: 'x' }), called(2, { kind: 'read' }), answered(2, 'x')];
    assert.equal(judge(historiesAreLinearizable, steps), undefined);
  });

  it('speaks when a read misses what was acknowledged before it', () => {
    const steps = [
      called(1, { kind: 'put', value: 'x' }),
      answered(1, ''),
      called(2, { kind: 'read' }),
      answered(2, ''),
    ];
    assert.match(
      judge(historiesAreLinearizable, steps) ?? '',
      /^a: after 1 operations none of these fits: \{"kind":"read"/,
    );
  });

  it('speaks when nobody was answered', () => {
    assert.match(judge(historiesAreLinearizable, [called(1, { kind: 'read' })]) ?? '', /no client/);
  });
});
