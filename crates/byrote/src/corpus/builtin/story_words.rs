//! The words and templates of the stories; each list is in order of frequency, most common first.

/// A list of words as a slice of strings.
macro_rules! words {
    ($($word:tt)*) => { &[$(stringify!($word)),*] };
}

/// A list of phrases, the same.
macro_rules! phrases {
    ($($phrase:literal,)*) => { &[$($phrase),*] };
}

/// A list of (preposition, noun).
macro_rules! places {
    ($($preposition:tt $noun:tt,)*) => { &[$((stringify!($preposition), stringify!($noun))),*] };
}

/// Plots as lists of beats: `,` ends a beat, `;` ends a plot, and `|` separates alternatives for a beat.
macro_rules! plots {
    ($($($($text:literal)|+),+;)+) => { &[$(&[$(&[$($text),+]),+]),+] };
}

pub(super) const GIRLS: &[&str] = words! {
    Lily Mia Sue Anna Lucy Sara Emma Zoe Ella Amy Rose Daisy Ruby Ivy Nora Clara Molly Jane Kate Alice Grace
    Hazel Maya Lola Bella Stella Ada Nina Eva Leah Hannah Poppy Tina Mary Sally Jenny Penny Violet Olive
    Maggie Elsie Flora June April Wendy Betty Dora Iris Freya Luna Aria Cora Esme Greta Heidi Ingrid Jade Kiki
    Lena Mina Noor Opal Petra Rita Sofia Tess Uma Vera Willa Yara Zara Amina Bianca Celia Delia Edith Fatima
    Gemma Holly Inez Josie Keiko Lydia Marta Nadia Olga Priya Renata Sonia Thea Ursula Viola Winnie Yuki Zelda
    Agnes Beatrix Carmen Dalia
};
pub(super) const BOYS: &[&str] = words! {
    Tom Tim Ben Max Sam Jack Leo Joe Bob Dan Finn Oscar Henry Luke Noah Billy Charlie Jake Nick Peter Mark
    Adam Toby Eli Sid Ned Gus Hugo Otto Felix Theo Owen Ian Kai Ravi Omar Milo Jonah Simon Walter Ralph Bruno
    Dylan Ethan Frank George Harry Ivan Jasper Kenji Liam Mateo Nico Oliver Pablo Quentin Rory Stefan Teddy
    Umar Victor Wesley Xavier Yusuf Zack Amir Boris Caleb Diego Emil Fritz Gabriel Hector Igor Jorge Karim
    Lars Miguel Nils Oleg Pedro Ramon Sven Tariq Ulf Vito Wilbur Yann Zane Anders Basil Cedric Duncan Edgar
    Felipe Gordon Horace
};
pub(super) const NICKNAMES: &[&str] = words! {
    Pip Fluffy Buddy Coco Benny Nibbles Whiskers Biscuit Ziggy Bubbles Mittens Rusty Sunny Bingo Hopper
    Pebbles Waffles Dusty Ginger Pickles Snowy Sparkle Twinkle Fuzzy Muffin Chip Noodle Scout Marble Button
    Clover Maple Peanut Honey Bean Pumpkin Tumble Bramble Nutmeg Domino Echo Fern Jelly Kipper Lucky Mocha
    Nugget Olly Patch Quill Ripple Socks Toffee Velvet Willow Zippy Cinnamon Dizzy Flip Gizmo Huckle Inky
    Jingle Momo Pogo Roly Skipper Tango Wink Zuzu
};
pub(super) const CREATURES: &[&str] = words! {
    rabbit bear dog cat fox mouse bird duck frog squirrel turtle bunny kitten puppy lion monkey elephant pig
    owl horse cow sheep goat penguin dragon hedgehog deer snail bee ladybug ant spider otter beaver badger
    mole raccoon panda koala kangaroo giraffe zebra hippo crocodile lizard parrot peacock swan goose chicken
    rooster donkey pony lamb camel llama wolf tiger unicorn robot snowman scarecrow hamster bat butterfly
    caterpillar dinosaur toad crow sparrow alpaca cricket firefly gecko hen jackal lemur magpie newt ostrich
    pelican quail reindeer stork walrus yak
};
pub(super) const GIRL_KINDS: &[&str] = words! { girl princess fairy pirate witch queen inventor };
pub(super) const BOY_KINDS: &[&str] = words! { boy prince knight pirate wizard king inventor };
pub(super) const TRAITS: &[&str] = words! {
    little small kind happy brave shy curious clever young cheerful gentle tiny playful friendly funny smart
    sweet quiet silly sleepy good busy lively polite helpful grumpy proud careful creative bold calm jolly
    honest merry patient nice strong adventurous thoughtful generous messy noisy stubborn wise dreamy bouncy
    eager fearless loyal timid graceful humble joyful lucky modest naughty neat quick restless spirited tidy
    witty bashful bright chatty daring fidgety giggly hopeful imaginative inventive energetic forgetful
    ordinary unusual talkative warmhearted easygoing cautious charming determined gifted grateful agile
    musical nimble optimistic ragged scruffy sincere tender trusting
};
pub(super) const THINGS: &[&str] = words! {
    ball kite boat hat drum book doll car truck teddy bell flute blanket scarf train puppet whistle lamp
    basket crown coat bucket toy ring map flag shell backpack cup cape necklace lantern pillow wand compass
    umbrella sweater camera guitar trumpet marble mitten ribbon violin rocket robot mirror paintbrush clock
    spoon key shovel feather button bracelet sketchbook mask jacket quilt telescope purse teapot harmonica
    locket instrument acorn balloon kaleidoscope notebook puzzle bonnet tambourine medal magnet ladle sponge
    trinket
};
pub(super) const LOOKS: &[&str] = words! {
    red new blue big little shiny pretty yellow green special pink old purple orange tiny bright nice white
    small beautiful magic colorful lovely golden striped fancy brown silver wonderful spotted funny cute gray
    sparkly lucky splendid silly precious painted checkered turquoise violet elegant unusual amazing dazzling
    emerald handmade ivory mysterious patterned scarlet speckled
};
pub(super) const PLACES: &[(&str, &str)] = places! {
    at park, at beach, in garden, in forest, at playground, by lake, at farm, by river, on hill, in yard,
    at zoo, by pond, in meadow, at market, in field, at fair, by stream, in orchard, at school, by fountain,
    in village, on bridge, in valley, at harbor, in square, on mountain, at carnival, in courtyard, on island,
    at lighthouse, by waterfall, at castle, in pasture, by creek, at festival, at windmill, on dock,
    in vineyard, at campground, in clearing, at shore, in jungle, by canal, in maze, at picnic, at parade,
    in dunes, at crossroads, in marsh, at station, by mill,
};
pub(super) const HOMES: &[&str] = words! {
    house forest village cottage town castle cave valley meadow barn cabin city hut jungle tower palace garden
    lighthouse kingdom treehouse mill
};
pub(super) const HOMELY: &[&str] = words! {
    small big little quiet cozy tiny pretty lovely green sunny old peaceful bright faraway beautiful snowy
    misty funny strange hidden enchanted windy lonely crooked mossy wooden
};
pub(super) const KIN: &[&str] =
    words! { mom dad sister brother grandma grandpa mother father aunt uncle cousin };
pub(super) const PETS: &[&str] = words! {
    bird kitten puppy duckling bunny mouse squirrel frog turtle lamb chick hedgehog chipmunk gosling piglet
    sparrow
};
pub(super) const ELDERS: &[&str] = words! { woman man farmer baker sailor gardener miller shepherd };
pub(super) const FOODS: &[&str] = words! {
    cookie sandwich apple muffin pear banana cupcake pancake bun peach carrot plum orange doughnut pretzel
    waffle pie
};
pub(super) const WEATHER: &[&str] = words! {
    sunny warm windy bright cold beautiful cloudy lovely hot cool breezy fine chilly quiet foggy crisp golden
    misty gray pleasant mild frosty clear perfect spring summer autumn winter
};
pub(super) const TIMES: &[&str] = words! { day morning afternoon evening };
pub(super) const SAD: &[&str] = words! { sad upset worried unhappy lonely gloomy };
pub(super) const GLAD: &[&str] = words! { happy glad thankful cheerful joyful delighted };
pub(super) const HOBBIES: &[&str] = phrases! {
    "play outside", "sing", "dance", "paint", "climb trees", "read books", "draw pictures", "jump in puddles",
    "pick flowers", "tell stories", "help others", "run fast", "build towers", "explore", "chase butterflies",
    "play in the sun", "count the stars", "bake cookies", "swim", "look at the clouds", "laugh",
    "make new friends", "collect shells", "ask questions", "hum little songs", "splash in the water",
    "hop on one leg", "play the drums", "roll down hills", "watch the rain", "plant seeds",
    "make funny faces", "invent games", "skip stones", "listen to music", "solve puzzles", "write letters",
    "fix old toys", "sail paper boats", "dig for treasure", "whistle tunes", "juggle apples",
    "ride the waves", "knit tiny socks", "feed the ducks", "sweep the floor", "catch snowflakes", "cook soup",
    "learn new words", "carve wooden toys", "visit old friends", "race the wind", "follow footprints",
    "search for bugs", "float on the lake", "wear silly hats", "blow bubbles", "dream",
};
pub(super) const SPOTS: &[&str] = phrases! {
    "under a bench", "behind a tree", "under a bush", "in the tall grass", "behind a big rock",
    "under some leaves", "next to a log", "behind the fence", "by the gate", "under an old cart",
    "inside a hollow tree", "behind a barrel", "beside the path", "near a mossy stone", "under a wooden step",
    "behind a pile of hay",
};
pub(super) const DARES: &[&str] = phrases! {
    "sing in front of everyone", "jump over a wide puddle", "climb a tall ladder",
    "walk across a wobbly plank", "dance in front of the crowd", "slide down a steep slope",
    "swing as high as the birds", "cross an old bridge",
};

/// What an opening has introduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Who the hero is.
    Hero,
    /// Also what the hero owns.
    Thing,
    /// Also where the hero is.
    Place,
    /// All of that.
    All,
}

/// Weight, what is introduced, template.
pub(super) const OPENINGS: &[(u64, Told, &str)] = &[
    (590, Told::Hero, "Once upon a time, there was {a} {trait} {kind} named {N}."),
    (30, Told::Hero, "Once upon a time, there was {a} {trait} {kind} who was called {N}."),
    (60, Told::Hero, "Once upon a time, in {a} {homely} {home}, there lived {a} {trait} {kind} named {N}."),
    (40, Told::Hero, "Once upon a time there was {a} {trait} {kind} named {N}."),
    (15, Told::Hero, "Once upon a time, {a} {trait} {kind} named {N} lived in {a} {homely} {home}."),
    (20, Told::Hero, "Once there was {a} {trait} {kind} named {N} who loved to {hobby}."),
    (10, Told::Hero, "There once was {a} {trait} {kind} called {N} who loved to {hobby}."),
    (20, Told::Hero, "{N} was {a} {trait} {kind} who loved to {hobby}."),
    (15, Told::Hero, "{hero} loved to {hobby} more than anything."),
    (10, Told::Hero, "Long ago, {a} {trait} {kind} named {N} lived in {a} {homely} {home}."),
    (10, Told::Hero, "In {a} {homely} {home} there lived {a} {trait} {kind} named {N}."),
    (15, Told::Hero, "{N} loved to {hobby} with {his} best friend {F}."),
    (15, Told::Hero, "{N} lived with {his} {kin} in {a} {homely} {home}."),
    (20, Told::Thing, "{N} had {a} {look} {thing} that {he} loved very much."),
    (10, Told::Thing, "{hero} loved {his} {look} {thing} and took it everywhere."),
    (10, Told::Thing, "For {his} birthday, {hero} got {a} {look} {thing}."),
    (10, Told::Thing, "{hero} got {a} {look} {thing} from {his} {kin}."),
    (10, Told::Thing, "There was {a} {trait} {kind} named {N} who had {a} {look} {thing}."),
    (90, Told::Place, "One day, {a} {trait} {kind} named {N} went to the {place}."),
    (50, Told::Place, "One day, {N} and {his} {kin} went to the {place}."),
    (30, Told::Place, "One {weather} {time}, {hero} went to the {place} with {his} {kin}."),
    (20, Told::Place, "{N} and {his} {kin} went to the {place} to play."),
    (20, Told::Place, "It was {a} {weather} {time}, and {hero} was playing {at} the {place}."),
    (10, Told::Place, "On {a} {weather} {time}, {a} {trait} {kind} named {N} went to the {place}."),
    (10, Told::Place, "{hero} woke up early and ran all the way to the {place}."),
    (10, Told::Place, "\"Let us go to the {place}!\" said {hero} one {weather} {time}."),
    (30, Told::All, "One day, {hero} took {his} {look} {thing} to the {place}."),
    (15, Told::All, "{hero} was playing with {his} {look} {thing} {at} the {place}."),
    (10, Told::All, "One {weather} {time}, {a} {trait} {kind} named {N} took {his} {thing} to the {place}."),
    (10, Told::All, "\"Look at my {look} {thing}!\" said {hero} {at} the {place}."),
];

/// From the hero to the place.
pub(super) const TO_PLACE: &[&str] = &[
    "One day, {he} went to the {place} with {his} {kin}.",
    "One {weather} {time}, {he} went for a walk to the {place}.",
    "It was {a} {weather} {time}, and {he} was playing {at} the {place}.",
    "One {weather} {time}, {he} was playing {at} the {place}.",
];
/// From the hero to the place and the thing.
pub(super) const TO_PLACE_WITH_THING: &[&str] = &[
    "One day, {he} took {his} {look} {thing} to the {place}.",
    "{His} {kin} gave {him} {a} {look} {thing}, and {he} took it to the {place}.",
    "One {weather} {time}, {he} went to the {place} with {his} {look} {thing}.",
    "{He} had {a} {look} {thing}, and one day {he} took it to the {place}.",
];
/// From the thing to the place.
pub(super) const THING_TO_PLACE: &[&str] = &[
    "One day, {he} took it to the {place}.",
    "One {weather} {time}, {he} played with it {at} the {place}.",
    "{He} could not wait to show it to everyone {at} the {place}.",
    "One {weather} {time}, {he} took it to the {place} with {his} {kin}.",
];

/// The beats of a plot: one of each group is used, and an empty one adds nothing.
pub(super) type Plot = &'static [&'static [&'static str]];

/// Plots that start at the place with the hero's own thing.
pub(super) const PLOTS_WITH_THING: &[Plot] = plots! {
    // Lost and found.
    "But when it was time to go home, the {thing} was gone!"
        | "{He} put it down to rest, and then {he} could not find it."
        | "{He} played for so long that {he} forgot where the {thing} was.",
    "\"Do not cry,\" said {his} {kin}, \"we will look for it together.\""
        | "{N} felt {sad}, but {F} came by and said, \"I will help you look.\""
        | "{N} looked so {sad} that {F} came to help.",
    "They looked and looked until they found it {spot}." | "At last they saw the {thing} {spot}."
        | "They found the {thing} {spot}.",
    "{N} was so {glad} that {he} danced all the way home."
        | "From then on, {N} always took good care of the {thing}."
        | "{N} held the {thing} tight and felt {glad} again." | "";
    // Stuck in the mud.
    "Then {he} slipped, and the {thing} fell into the mud."
        | "But {he} tripped and dropped the {thing} in a puddle.",
    "\"Oh no, look at my {thing}!\" cried {N}." | "{N} felt {sad} and began to cry." | "",
    "\"It is only a little dirty,\" said {his} {kin}." | "\"We can clean it,\" said {his} friend {F}.",
    "Together they washed it until it looked as good as new."
        | "They washed it with care, and {N} felt {glad} again.";
    // Sharing.
    "{F} came over and asked, \"May I play with your {thing}?\""
        | "{F} saw the {thing} and asked to hold it for a while.",
    "At first {N} said no, and {F} looked {sad}." | "{N} did not want to share, so {F} walked away.",
    "\"I am sorry,\" said {N}, \"let us take turns.\"" | "Then {N} called out, \"Wait, we can share!\"",
    "They played until the sun went down." | "{N} learned that sharing is more fun than playing alone."
        | "From that day on, {N} and {F} always shared." | "";
    // A sad little animal.
    "There {he} saw {a} {pet} {spot}, and it looked very {sad}."
        | "A little {pet} sat {spot} and looked {sad}.",
    "\"What is wrong?\" asked {N}." | "\"Why are you crying?\" asked {N}." | "",
    "\"I have nobody to play with,\" said the {pet}." | "\"I have no toys at all,\" said the {pet}.",
    "So {N} let it play with the {thing}, and they laughed and laughed."
        | "\"Then play with me,\" said {N}, and gave it the {thing}.";
    // Showing.
    "{F} saw it and said, \"What a lovely {thing} you have!\""
        | "\"I wish I had {a} {thing} like that,\" said {F}.",
    "\"Would you like to hold it?\" asked {N}." | "{N} smiled and let {F} hold it.",
    "{F} held it very carefully and gave it back with a smile." | "{F} was so happy that they both laughed.";
    // Playing together.
    "{F} came to play too." | "{He} played there with {F}." | "\"Let us play!\" said {his} friend {F}.",
    "They laughed until it was time for supper." | "They played and sang, and then they had {a} {food}."
        | "They had so much fun that they forgot the time." | "Playing together was twice as much fun.";
};

/// Plots that start at the place without a thing.
pub(super) const PLOTS_WITHOUT_THING: &[Plot] = plots! {
    // Someone else's thing.
    "There {N} saw {a} {look} {thing} {spot}." | "{N} looked down and found {a} {look} {thing} {spot}.",
    "\"I wonder whose it is,\" said {N}." | "{He} wanted to keep it, but it belonged to someone else." | "",
    "Then {F} came by and said, \"I have lost my {thing}.\"" | "Just then {F} cried, \"That is my {thing}!\"",
    "{N} gave it back, and {F} was very {glad}." | "{N} gave it back, and {F} gave {him} a big hug.";
    // The lost little animal.
    "There {N} heard a small cry {spot}." | "Suddenly {N} heard someone calling for help {spot}.",
    "It was {a} {pet} that had lost its mother." | "It was {a} {pet} that could not find its way home.",
    "\"Do not be afraid,\" said {N}, \"I will help you.\"" | "\"Come with me,\" said {N}." | "",
    "They walked and walked until the {pet} was home."
        | "At last the {pet} was home, and it thanked {N} again and again.";
    // Being brave.
    "{N} wanted to {dare}, but {he} was too scared." | "The others asked {N} to {dare}, but {he} was afraid.",
    "\"You can do it,\" said {his} {kin}." | "\"I was scared once too,\" said {his} friend {F}.",
    "So {N} took a deep breath, counted to three, and tried."
        | "{N} closed {his} eyes, opened them again, and tried.",
    "It was not so hard after all!" | "It worked, and everyone cheered." | "{N} did it, and felt very proud.";
    // Rain.
    "Soon it began to rain, so {N} hid under a big tree." | "Dark clouds came, so {N} ran under a big tree.",
    "A wet little {pet} was hiding there too." | "Under the tree sat {a} {pet}, cold and wet.",
    "\"Come closer and we will keep warm,\" said {N}." | "\"We can wait together,\" said {N}." | "",
    "When the sun came back, they saw a rainbow." | "They told each other stories until the sun came out.";
    // Sharing with someone hungry.
    "{N} sat down to eat {a} {food}, and a hungry {pet} came by."
        | "{N} had {a} {food} to eat, but then {he} saw a hungry {pet}.",
    "\"I have not eaten all day,\" said the {pet}." | "\"Are you hungry?\" asked {N}, and the {pet} nodded."
        | "",
    "{N} broke the {food} in two and gave away the bigger half."
        | "So {N} gave the {pet} half of the {food}.",
    "It was the best {food} they had ever tasted." | "Sharing made the {food} taste even better.";
    // The race.
    "{F} was there too and said, \"Let us have a race!\""
        | "\"I can run faster than you,\" said {his} friend {F}.",
    "They ran as fast as they could, but {F} fell down."
        | "They ran and ran, until {F} tripped over a stone.",
    "{N} ran back and asked, \"Are you all right?\"" | "{N} could have won, but {he} stopped to help.",
    "They crossed the line together, and both of them won."
        | "They walked home together, laughing all the way.";
    // The heavy basket.
    "There {N} met an old {elder} with a heavy basket." | "{N} saw an old {elder} who had dropped a basket.",
    "\"May I help you?\" asked {N}." | "{N} ran over to help at once." | "",
    "Together they carried it all the way up the road." | "They carried the basket home together.",
    "The old {elder} smiled and gave {him} {a} {food}." | "\"You are very kind,\" said the old {elder}.";
    // The tower.
    "{N} wanted to build the tallest tower in the world."
        | "{N} found some stones and began to build a tower.",
    "But the tower fell down again and again." | "But each time the tower fell down.",
    "\"Try once more, but slowly,\" said {his} {kin}."
        | "\"Let us build it together,\" said {his} friend {F}.",
    "This time the tower stood, and {N} was very proud." | "Soon it was taller than {he} was!"
        | "At last it stood.";
    // The visitor.
    "A butterfly came and sat on {his} nose." | "A big red butterfly flew by."
        | "{N} saw a shiny beetle {spot}.",
    "\"How pretty you are!\" said {N}." | "\"Hello, little friend,\" said {N}.",
    "{He} sat very still until it flew away." | "It danced in the air, and {he} danced too.";
};

/// A group that adds nothing.
pub(super) const SILENCE: &[&str] = &[""];

/// A last sentence for stories without a bridge.
pub(super) const CLOSINGS: &[&str] = &[
    "It was a very good day.",
    "That night, {N} fell asleep with a smile.",
    "{N} could hardly wait for the next day.",
    "{N} never forgot that day.",
    "It was a day to remember.",
    "{N} went home with a big smile.",
];
