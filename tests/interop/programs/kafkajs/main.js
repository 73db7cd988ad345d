// Produce in the codecs of kafkajs, consume in a group, transactions with offsets, the admin calls.
//
// Usage: node main.js ADDRESS. Prints a line for each thing done; ends with 1 at the first surprise.
const assert = require('assert')
const { CompressionTypes, CompressionCodecs, Kafka, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const topic = 'kafkajs'
const partitions = 3
const perCodec = 100
const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.ERROR })

async function produce() {
  let count = 0
  for (const codec of ['None', 'GZIP', 'Snappy']) {
    for (const idempotent of [false, true]) {
      const producer = kafka.producer({ idempotent })
      await producer.connect()
      const messages = Array.from({ length: perCodec }, (_, number) => ({
        key: `key ${number}`,
        value: `${codec} ${number} value value value value`,
        headers: { codec },
      }))
      await producer.send({ topic, messages, acks: -1, compression: CompressionTypes[codec] })
      await producer.disconnect()
      count += perCodec
    }
  }
  return count
}

async function consume(groupId, count) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10000, heartbeatInterval: 500 })
  const seen = new Set()
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      eachMessage: async ({ partition, message }) => {
        const place = `${partition}:${message.offset}`
        assert(!seen.has(place), `${place} was read twice`)
        assert(message.value.toString().startsWith(message.headers.codec.toString()))
        seen.add(place)
        if (seen.size === count) resolve()
      },
    })
  })
  await consumer.disconnect()
  console.log(`${groupId} read ${seen.size}`)
}

// Records and a group's offsets in transactions: the aborted ones are seen by nobody.
async function transact(admin) {
  const [input, output, groupId] = ['kafkajs-input', 'kafkajs-output', 'kafkajs-copier']
  await admin.createTopics({ topics: [input, output].map(topic => ({ topic, numPartitions: 1 })) })
  const settings = { transactionalId: 'kafkajs', idempotent: true, maxInFlightRequests: 1 }
  const producer = kafka.producer(settings)
  await producer.connect()
  for (const [offset, end] of [['3', 'abort'], ['5', 'commit'], ['9', 'abort'], ['7', 'commit']]) {
    const before = await committedOffset(admin, groupId, input)
    const transaction = await producer.transaction()
    const topics = [{ topic: input, partitions: [{ partition: 0, offset }] }]
    await transaction.send({ topic: output, messages: [{ value: `${end} ${offset}` }] })
    await transaction.sendOffsets({ consumerGroupId: groupId, topics })
    await transaction[end]()
    const after = await committedOffset(admin, groupId, input)
    assert.strictEqual(after, end === 'commit' ? offset : before)
  }
  const old = await producer.transaction()
  await old.send({ topic: output, messages: [{ value: 'fenced' }] })
  const newer = kafka.producer(settings)
  await newer.connect()
  const last = await newer.transaction() // kafkajs takes the id over here, and not before
  await assert.rejects(old.commit(), { type: 'INVALID_PRODUCER_EPOCH' })
  await last.send({ topic: output, messages: [{ value: 'last' }] })
  await last.commit()
  assert.deepStrictEqual(await readCommitted(output, 'last'), ['commit 5', 'commit 7', 'last'])
  for (const one of [producer, newer]) await one.disconnect()
  console.log('transacted')
}

async function committedOffset(admin, groupId, topic) {
  const [found] = await admin.fetchOffsets({ groupId, topics: [topic] })
  return found.partitions.find(({ partition }) => partition === 0).offset
}

async function readCommitted(topic, last) {
  const consumer = kafka.consumer({ groupId: 'kafkajs-readers', readUncommitted: false })
  const values = []
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      eachMessage: async ({ message }) => {
        values.push(message.value.toString())
        if (values[values.length - 1] === last) resolve()
      },
    })
  })
  await consumer.disconnect()
  return values
}

async function administer(admin, groupId, count) {
  const ends = await admin.fetchTopicOffsets(topic)
  assert.strictEqual(ends.reduce((sum, { offset }) => sum + Number(offset), 0), count)
  const [committed] = await admin.fetchOffsets({ groupId, topics: [topic] })
  for (const { partition, offset } of committed.partitions) {
    assert.strictEqual(offset, ends.find(end => end.partition === partition).offset)
  }
  const { groups } = await admin.describeGroups([groupId])
  assert.deepStrictEqual([groups[0].state, groups[0].members], ['Empty', []])

  await admin.createPartitions({ topicPartitions: [{ topic, count: partitions + 1 }] })
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  assert.strictEqual(topics[0].partitions.length, partitions + 1)

  const configEntries = [{ name: 'retention.ms', value: '123456' }]
  await admin.alterConfigs({ resources: [{ type: 2, name: topic, configEntries }] })
  const described = await admin.describeConfigs({
    resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }],
  })
  assert.strictEqual(described.resources[0].configEntries[0].configValue, '123456')

  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] })
  const [start] = (await admin.fetchTopicOffsets(topic)).filter(one => one.partition === 0)
  assert.strictEqual(start.low, '5')
  await admin.resetOffsets({ groupId, topic, earliest: true })
  await admin.deleteGroups([groupId])
  await admin.deleteTopics({ topics: [topic] })
  assert(!(await admin.listTopics()).includes(topic))
  console.log('administered')
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: partitions }] })
  const count = await produce()
  console.log(`produced ${count}`)
  await consume('readers', count)
  await administer(admin, 'readers', count)
  await transact(admin)
  await admin.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
