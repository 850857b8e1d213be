// @platformatic/kafka, asked by the scenarios of the client matrix: a JSON question a line, a JSON answer each.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Admin, Consumer, Producer } from '@platformatic/kafka'

const READ_MS = 20000
const TOPIC = 2
const SET = 0
const members = new Map()
const producers = new Map()
let serial = 0

function common (q) {
  const { protocol = '', mechanism, user: username, password, ca } = q.door ?? {}
  return {
    clientId: 'matrix',
    bootstrapBrokers: [q.bootstrap],
    retries: 8,
    retryDelay: 50,
    ...(protocol.endsWith('SSL') ? { tls: { ca: [readFileSync(ca)] } } : {}),
    ...(mechanism ? { sasl: { mechanism, username, password } } : {}),
  }
}
const unpack = (text) => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
const pack = (data) => (data === null || data === undefined ? null : Buffer.from(data).toString('base64'))
const pause = (ms) => new Promise((done) => setTimeout(done, ms))

async function until (true_, ms) {
  const over = Date.now() + ms
  while (!true_() && Date.now() < over) await pause(10)
}

// Header names are buffers, and a map tells two buffers of the same bytes apart: so a name may come twice.
const outgoing = (q) => q.records.map((r) => ({
  topic: q.topic,
  partition: q.partition,
  key: unpack(r.key),
  value: unpack(r.value),
  headers: new Map(r.headers.map(([name, value]) => [Buffer.from(name), unpack(value)])),
  ...(r.timestamp === null ? {} : { timestamp: BigInt(r.timestamp) }),
}))

const incoming = (m) => ({
  key: pack(m.key),
  value: pack(m.value),
  headers: m.headerEntries.map(([name, value]) => [name.toString(), pack(value)]),
  timestamp: Number(m.timestamp),
  partition: m.partition,
  offset: Number(m.offset),
})

async function administer (q, act) {
  const admin = new Admin(common(q))
  try {
    return await act(admin)
  } finally {
    await admin.close()
  }
}

async function listOffset (admin, q, at) {
  const [told] = await admin.listOffsets({ topics: [{ name: q.topic, partitions: [{ partitionIndex: q.partition, timestamp: BigInt(at) }] }] })
  return Number(told.partitions[0].offset)
}

async function join (q, reading) {
  const protocol = q.protocol === 'consumer' ? { groupProtocol: 'consumer' } : { sessionTimeout: 10000, heartbeatInterval: 500, rebalanceTimeout: 10000 }
  const consumer = new Consumer({ ...common(q), groupId: q.group, maxWaitTime: 100, ...protocol })
  const member = { consumer, messages: [], owned: () => (consumer.assignments ?? []).find((each) => each.topic === q.topic)?.partitions ?? [] }
  const where = reading ?? { mode: 'committed', fallbackMode: 'earliest' }
  member.stream = await consumer.consume({ topics: [q.topic], autocommit: false, isolationLevel: q.committed ? 1 : 0, ...where })
  const seen = new Set()
  member.stream.on('data', (message) => {
    const place = `${message.partition}@${message.offset}`
    if (!seen.has(place)) member.messages.push(message)
    seen.add(place)
  })
  member.stream.on('error', (error) => { member.failure = error })
  return member
}

async function close (member) {
  await member.stream.close()
  await member.consumer.close(true)
}

const verbs = {
  create_topic: (q) => administer(q, (admin) => admin.createTopics({
    topics: [q.topic], partitions: q.partitions, replicas: 1, configs: Object.entries(q.config).map(([name, value]) => ({ name, value })),
  })),
  delete_topic: (q) => administer(q, (admin) => admin.deleteTopics({ topics: [q.topic] })),
  list_topics: (q) => administer(q, (admin) => admin.listTopics()),
  partitions_of: (q) => administer(q, async (admin) => (await admin.metadata({ topics: [q.topic], forceUpdate: true })).topics.get(q.topic).partitionsCount),
  grow_topic: (q) => administer(q, (admin) => admin.createPartitions({ topics: [{ name: q.topic, count: q.partitions }] })),
  set_config: (q) => administer(q, (admin) => admin.incrementalAlterConfigs({
    resources: [{ resourceType: TOPIC, resourceName: q.topic, configs: [{ name: q.name, configOperation: SET, value: q.value }] }],
  })),
  get_config: (q) => administer(q, async (admin) => {
    const [told] = await admin.describeConfigs({ resources: [{ resourceType: TOPIC, resourceName: q.topic, configurationKeys: [q.name] }] })
    return told.configs[0].value
  }),
  offset_of: (q) => administer(q, (admin) => listOffset(admin, q, q.at)),
  groups: (q) => administer(q, async (admin) => [...(await admin.listGroups()).keys()]),
  committed: (q) => administer(q, async (admin) => {
    const [told] = await admin.listConsumerGroupOffsets({ groups: [q.group] })
    const topic = told.topics.find((each) => each.name === q.topic)
    return Object.fromEntries((topic?.partitions ?? []).map((each) => [each.partitionIndex, Number(each.committedOffset)]))
  }),
  delete_group: (q) => administer(q, (admin) => admin.deleteGroups({ groups: [q.group] })),

  async produce (q) {
    const producer = new Producer({ ...common(q), idempotent: q.idempotent, autocreateTopics: true })
    try {
      const told = await producer.send({ messages: outgoing(q), acks: q.acks, compression: q.codec })
      return q.acks === 0 ? [] : q.records.map((_, n) => Number(told.offsets[0].offset) + n)
    } finally {
      await producer.close(true)
    }
  },

  // It reads only as a member of a group, so a group of one is made for the reading.
  async read (q) {
    const start = q.timestamp === null ? q.offset : await administer(q, (admin) => listOffset(admin, q, q.timestamp))
    const group = `reader-${++serial}-${process.pid}-${Date.now()}`
    const member = await join({ ...q, group }, { mode: 'manual', offsets: [{ topic: q.topic, partition: q.partition, offset: BigInt(start) }] })
    try {
      await until(() => member.messages.length >= q.count || member.failure, READ_MS)
      if (member.failure) throw member.failure
      return member.messages.slice(0, q.count).map(incoming)
    } finally {
      await close(member)
    }
  },

  async join (q) { members.set(q.member, await join({ ...q, committed: true })) },
  async take (q) {
    const member = members.get(q.member)
    // A fetch that was under way when a partition went to another member still brings its records, from Apache Kafka, too.
    const mine = () => member.messages.filter((message) => member.owned().includes(message.partition))
    await until(() => mine().length >= q.count, READ_MS)
    member.taken = mine().slice(0, q.count)
    member.messages = member.messages.filter((message) => !member.taken.includes(message))
    return member.taken.map(incoming)
  },
  assigned: async (q) => members.get(q.member).owned(),
  commit: (q) => members.get(q.member).consumer.commit({
    offsets: Object.entries(q.offsets).map(([partition, offset]) => ({ topic: q.topic, partition: Number(partition), offset: BigInt(offset), leaderEpoch: -1 })),
  }),
  async leave (q) {
    const member = members.get(q.member)
    members.delete(q.member)
    await close(member)
  },

  // The epoch is taken with the first transaction, so that one begins now.
  async open_producer (q) {
    const producer = new Producer({ ...common(q), idempotent: true, transactionalId: q.transactional_id, producerId: -1n, producerEpoch: -1 })
    producers.set(q.producer, { producer, transaction: await producer.beginTransaction() })
  },
  async begin (q) {
    const own = producers.get(q.producer)
    if (own.transaction === null || own.transaction.completed) own.transaction = await own.producer.beginTransaction()
  },
  async send (q) { await producers.get(q.producer).transaction.send({ messages: outgoing(q) }) },
  async send_offsets (q) {
    const { transaction } = producers.get(q.producer)
    const member = members.get(q.member)
    await transaction.addConsumer(member.consumer)
    for (const [partition, offset] of Object.entries(q.offsets)) {
      await transaction.addOffset(member.taken.find((message) => message.partition === Number(partition) && Number(message.offset) + 1 === offset))
    }
  },
  async end (q) {
    const { transaction } = producers.get(q.producer)
    await (q.commit ? transaction.commit() : transaction.abort())
  },
  async close_producer (q) {
    const { producer } = producers.get(q.producer)
    producers.delete(q.producer)
    await producer.close(true)
  },
}

// What the broker said lies below what the client says of it.
function* layers (error) {
  yield error
  for (const inner of [error.cause, ...(error.errors ?? [])]) if (inner) yield* layers(inner)
}

async function answer (line) {
  const q = JSON.parse(line)
  try {
    const ok = await verbs[q.verb](q)
    return { ok: ok === undefined ? null : ok }
  } catch (refused) {
    const all = [...layers(refused)]
    const fenced = all.some((each) => ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH'].includes(each.apiId))
    return { error: all.map((each) => `${each.name}: ${each.message}`).join('; '), ...(fenced ? { fenced: true } : {}) }
  }
}

for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await answer(line)))
process.exit(0)
